package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
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
}

func (v versionInfo) String() string {
	return fmt.Sprintf("dibs %s (%s, %s)", v.Version, v.Go, v.Platform)
}

// readVersion reads the version that the Go command wrote into the binary.
func readVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
