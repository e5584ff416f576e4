module github.com/dibs-queue/dibs/tools

go 1.26.0

tool mvdan.cc/gofumpt

require (
	github.com/kisielk/errcheck v1.30.0
	github.com/polyfloyd/go-errorlint v1.8.0
	golang.org/x/tools v0.51.0
	honnef.co/go/tools v0.8.2
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	mvdan.cc/gofumpt v0.12.0 // indirect
)
