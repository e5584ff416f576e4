// Command waitfor waits until a SQL Server takes connections, makes a database that keeps versions of rows, and prints its URL:
//
//	go run ./scripts/waitfor URL NAME
//
// The containers of SQL Server have no program for that in the same place in all versions.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"time"

	_ "github.com/microsoft/go-mssqldb"
)

// patience is how long a server may take to start.
const patience = 4 * time.Minute

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: waitfor URL NAME")
		os.Exit(2)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	made, err := database(ctx, os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "waitfor:", err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
	fmt.Println(made)
}

func database(ctx context.Context, server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	db, err := sql.Open("sqlserver", server)
	if err != nil {
		return "", err
	}
	defer db.Close()
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	for db.PingContext(ctx) != nil {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return "", db.PingContext(context.Background())
		}
	}
	quoted := "[" + name + "]"
	for _, statement := range []string{"create database " + quoted, "alter database " + quoted + " set read_committed_snapshot on with rollback immediate"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return "", fmt.Errorf("%s: %w", statement, err)
		}
	}
	query := u.Query()
	query.Set("database", name)
	u.RawQuery = query.Encode()
	return u.String(), nil
}
