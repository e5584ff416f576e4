# make help prints what stands here before each target. All of it needs Go alone, but for test,
# night, torture, soak, bench and postgres, which find or install PostgreSQL.
.PHONY: check test night cluster-test help demo picture screenshots torture soak bench postgres fmt lint gofumpt analyze others fuzz portable workflows vulnerabilities

tool := GOWORK=off go tool -modfile=$(CURDIR)/tools/go.mod
all := ./... ./cmd/dibs/...
modules := $(filter-out cmd/dibs tools,$(patsubst %/go.mod,%,$(wildcard */go.mod */*/go.mod)))
lint := -vettool=$(CURDIR)/.tools/lint -errcheck.exclude=$(CURDIR)/tools/errcheck.txt

# fast, before each commit: the linters, and the tests on SQLite
check: gofumpt analyze
	@echo '== tests on SQLite'
	. scripts/memory.sh && go test -short -vet=off -parallel 8 -timeout 30m $(all)

# everything, before a change is offered: the linters and scripts/test.sh
test: lint
	scripts/test.sh

# what is too long for make test, for hours: docs/proof.md
night:
	scripts/night.sh

# a Galera cluster of three nodes, which are killed, stopped, frozen and cut off: docs/design/0037-galera.md
cluster-test:
	@scripts/cluster.sh

# this list
help:
	@awk '/^# / { said = substr($$0, 3) } /^[a-z]+:/ { sub(":.*", ""); if (said) printf "  make %-16s %s\n", $$0, said; said = "" } /^$$/ { said = "" }' Makefile

# several worker processes take jobs from one table; one of them is killed
demo:
	go run ./cmd/dibs demo

# the README's picture of the demo, docs/demo.svg
picture:
	scripts/picture.sh

# pictures of the server's pages, in the directory screenshots, and three for docs; needs Chromium
screenshots:
	@mkdir -p screenshots && cd server/pagetest && DIBS_SCREENSHOTS=$(CURDIR)/screenshots go test -count=1 -run TestScreenshots .
	@cd screenshots && cp page-overview-light.png ../docs/page-overview.png && cp page-queue-dark.png ../docs/page-queue.png && cp page-job-phone.png ../docs/page-job.png

# two minutes of faults on a PostgreSQL server of its own, which is killed too
torture:
	@bin=$$(scripts/postgres.sh) && go run ./cmd/dibs torture --pg-bin "$$bin"

# the long form of what proves the promises, for hours: docs/proof.md
soak:
	scripts/soak.sh

# dibs beside other queues on one server: make bench ARGS='--only W3', bench/main.go
bench:
	@scripts/bench.sh $(ARGS)

# a throw-away PostgreSQL server: prints its URL, lasts until Ctrl-C
postgres:
	@DIBS_PG_BIN=$$(scripts/postgres.sh) go run ./internal/lab/pgtest/withpg

# new inputs for each fuzz target, 30 s each: make fuzz FUZZTIME=5m
fuzz:
	@scripts/fuzz.sh

# vet, and so compile, with all tests for the systems that this one is not
portable:
	@for os in linux darwin windows; do echo "== vet for $$os"; GOOS=$$os CGO_ENABLED=0 go vet $(all) || exit 1; done

# the workflows in .github and what a release is made of
workflows:
	@scripts/workflows.sh

# known vulnerabilities that the code can reach; asks the Go project's list of them
vulnerabilities:
	go run golang.org/x/vuln/cmd/govulncheck@v1.6.0 $(all)

# format, and all analyzers of tools/lint, with memory for twice the speed
lint: export GOGC := 400
lint: gofumpt analyze others

gofumpt:
	@echo '== gofumpt'
	@bad=$$($(tool) gofumpt -l .) && { [ -z "$$bad" ] || { echo "not formatted (make fmt repairs it):" $$bad; exit 1; }; }

analyze:
	@echo '== vet, staticcheck, errorlint, errcheck'
	@GOWORK=off go build -C tools -o ../.tools/lint ./lint
	@go vet $(lint) $(all)

others: analyze
	@for module in $(modules); do (cd $$module && go vet $(lint) ./...) || exit 1; done

# format all of it
fmt:
	$(tool) gofumpt -w .
