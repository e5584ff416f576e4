# All of it needs Go alone, but for test, torture, soak, bench and postgres, which find or install PostgreSQL.
.PHONY: check test demo picture torture soak bench postgres fmt lint gofumpt vet staticcheck errorlint errcheck

tool := go tool -modfile=tools/go.mod

# Fast: format, linters, tidiness, and the tests on SQLite.
check: lint
	@echo '== tests on SQLite'
	go test -short ./...

# Everything: the linters, and every test with the race detector on SQLite and
# PostgreSQL, then the PostgreSQL tests on a second version of it.
test: lint
	scripts/test.sh

# Several worker processes take jobs from one table; one of them is killed.
demo:
	go run ./cmd/dibs demo

# The README's picture of the demo, docs/demo.svg.
picture:
	scripts/picture.sh

# Two minutes of faults on a PostgreSQL server of its own, which is killed too.
torture:
	@bin=$$(scripts/postgres.sh) && go run ./cmd/dibs torture --pg-bin "$$bin"

# The long form of what proves the promises: hours. docs/proof.md
soak:
	scripts/soak.sh

# dibs beside River on one server: make bench ARGS='--only W3'. bench/main.go
bench:
	@scripts/bench.sh $(ARGS)

# A throw-away PostgreSQL server: prints its URL, lasts until Ctrl-C.
postgres:
	@DIBS_PG_BIN=$$(scripts/postgres.sh) go run ./internal/pgtest/withpg

lint: gofumpt vet staticcheck errorlint errcheck

gofumpt:
	@echo '== gofumpt'
	@bad=$$($(tool) gofumpt -l .) && { [ -z "$$bad" ] || { echo "not formatted (make fmt mends it):" $$bad; exit 1; }; }

vet:
	@echo '== vet'
	@go vet ./...

staticcheck:
	@echo '== staticcheck'
	@$(tool) staticcheck ./...

errorlint:
	@echo '== errorlint'
	@$(tool) go-errorlint ./...

errcheck:
	@echo '== errcheck'
	@scripts/errcheck.sh

fmt:
	$(tool) gofumpt -w .
