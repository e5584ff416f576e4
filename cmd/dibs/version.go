package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/sqlserver"
	"github.com/spf13/cobra"
)

func newVersionCmd(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if a.JSON {
				return a.WriteJSON(v)
			}
			a.Say("%s", v)
			return nil
		},
	}
}

type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Experimental says which databases are, and why.
	Experimental []string `json:"experimental"`
}

func (v versionInfo) String() string {
	return strings.Join(append([]string{fmt.Sprintf("dibs %s (%s, %s)", v.Version, v.Go, v.Platform)}, v.Experimental...), "\n")
}

// readVersion reads the version that the Go command wrote into the binary.
func readVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Experimental: []string{sqlserver.Proven}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
