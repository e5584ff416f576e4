package mytest

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// network joins the network namespaces of a cluster's nodes by a bridge, on which this process is too.
type network struct {
	bridge, prefix string
	joined         int
}

// newNetwork makes a network, or returns nil if the machine does not allow it.
func newNetwork() (*network, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the loopback address will do
	}
	var b [3]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	n := &network{bridge: fmt.Sprintf("dibs%x", b), prefix: fmt.Sprintf("10.%d.%d.", 200+b[0]%50, b[1])}
	if ip("link add "+n.bridge+" type bridge") != nil {
		return nil, nil //nolint:nilnil // no bridges here, or no ip
	}
	if err := ip("addr add "+n.host(253)+"/24 dev "+n.bridge, "link set "+n.bridge+" up"); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// ip runs commands of the program ip, until one fails.
func ip(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, out)
		}
	}
	return nil
}

// host is the address of the i-th node.
func (n *network) host(i int) string { return fmt.Sprint(n.prefix, i+1) }

// connect gives the network namespace of a process an address on the bridge.
func (n *network) connect(pid int, host string) error {
	n.joined++
	end := fmt.Sprintf("%sv%d", n.bridge, n.joined)
	if err := ip(fmt.Sprintf("link add %s type veth peer name eth0 netns %d", end, pid), "link set "+end+" master "+n.bridge+" up"); err != nil {
		return err
	}
	return inside(pid, "addr add "+host+"/24 dev eth0", "link set eth0 up", "link set lo up")
}

// inside runs commands of the program ip in the network namespace of a process.
func inside(pid int, commands ...string) error {
	for _, c := range commands {
		args := append([]string{"-t", fmt.Sprint(pid), "-n", "ip"}, strings.Fields(c)...)
		if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, out)
		}
	}
	return nil
}

func (n *network) close() {
	if n != nil {
		_ = ip("link del " + n.bridge) // the other ends go with their namespaces
	}
}

// CanCut reports whether nodes can be cut off from each other.
func (c *Cluster) CanCut() bool { return c.net != nil }

// Cut cuts a node off from the other nodes; clients still reach it. Mend undoes that.
func (c *Cluster) Cut(i int) error { return c.routes(i, "add") }

// Mend lets a node that was cut off reach the others again.
func (c *Cluster) Mend(i int) error { return c.routes(i, "del") }

func (c *Cluster) routes(i int, do string) error {
	for k, other := range c.Nodes {
		if k == i {
			continue
		}
		for _, way := range [][2]*Node{{c.Nodes[i], other}, {other, c.Nodes[i]}} {
			if err := inside(way[0].guard.Process.Pid, "route "+do+" blackhole "+way[1].place.host+"/32"); err != nil {
				return err
			}
		}
	}
	return nil
}
