#!/bin/sh
# Generates a client in TypeScript, compiles it with main.ts, and runs that.
set -eu
npm ci --no-audit --no-fund
curl -s http://127.0.0.1:7070/openapi.json > openapi.json
npx openapi-ts -i openapi.json -o generated -c @hey-api/client-fetch
npx tsc -p .
node built/main.js
