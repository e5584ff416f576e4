module github.com/dibs-queue/dibs/sqlserver/parsetest

go 1.26.0

require github.com/sqlc-dev/teesql v1.1.0
