package mytest

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
)

// provider is where packages put Galera's library.
var provider = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib/libgalera_smm.so"}

// joinWithin bounds how long a node takes to join its cluster, also with a copy of all data.
const joinWithin = 3 * time.Minute

// Cluster is a test's own Galera cluster, with one database. Each node is in a network namespace of its own if the machine allows
// that; otherwise all are on the loopback address, and none can be cut off.
type Cluster struct {
	Nodes []*Node
	net   *network // nil: on the loopback address
}

// Node is a server of a cluster. Its methods may be called by one goroutine at a time.
type Node struct {
	cluster *Cluster
	place   place
	root    string
	guard   *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// place is where a node listens.
type place struct {
	host                   string
	client, group, ist, cp int
}

// EnvCluster is the environment variable without which tests of clusters are skipped: beside other tests the nodes would lose each
// other.
const EnvCluster = "DIBS_CLUSTER"

// NewCluster starts a cluster of n nodes, which ends with the test.
func NewCluster(t testing.TB, n int, options ...string) *Cluster {
	t.Helper()
	if os.Getenv(EnvCluster) == "" {
		t.Skip("make cluster-test runs it")
	}
	program, err := find()
	started(t, err)
	library := ""
	for _, path := range provider {
		if _, err := os.Stat(path); err == nil && library == "" {
			library = path
		}
	}
	if library == "" {
		needs.Missing(t, "needs Galera's library (Debian's package galera-4): none of %q", provider)
	}
	c := &Cluster{}
	t.Cleanup(c.close)
	if err := c.launch(program, library, n, options); err != nil {
		t.Fatalf("mytest: start a cluster: %v", err)
	}
	return c
}

func (c *Cluster) launch(program, library string, n int, options []string) (err error) {
	if c.net, err = newNetwork(); err != nil {
		return err
	}
	for i := range n {
		node := &Node{cluster: c}
		c.Nodes = append(c.Nodes, node)
		if node.place, err = c.choose(i); err != nil {
			return err
		}
		if node.root, err = os.MkdirTemp(inMemory(), "dibs-galera-"); err != nil {
			return err
		}
	}
	if err := install(filepath.Dir(program), c.Nodes); err != nil {
		return err
	}
	for i, node := range c.Nodes {
		if err := node.watch(program, append(node.settings(i, library), options...)); err != nil {
			return err
		}
	}
	if err := c.Nodes[0].order("start --wsrep-new-cluster"); err != nil {
		return err
	}
	if err := c.Nodes[0].Joined(1); err != nil {
		return err
	}
	for i, node := range c.Nodes[1:] { // one after the other: a donor has one joiner at a time
		if err := errors.Join(node.order("start"), node.Joined(i+2)); err != nil {
			return err
		}
	}
	return administer(c.Nodes[0].server(), "create database dibs")
}

// choose picks the address of the i-th node.
func (c *Cluster) choose(i int) (p place, err error) {
	if c.net != nil {
		return place{c.net.host(i), 3306, 4567, 4568, 4444}, nil
	}
	p.host = "127.0.0.1"
	for _, port := range []*int{&p.client, &p.group, &p.ist, &p.cp} {
		if *port, err = freePort(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// install makes the system tables of one node, and copies them to the others.
func install(bin string, nodes []*Node) error {
	first := filepath.Join(nodes[0].root, "data")
	script := "mariadb-install-db"
	if _, err := exec.LookPath(script); err != nil {
		script = filepath.Join(filepath.Dir(bin), "bin", script)
	}
	made, err := exec.Command(script, "--no-defaults", "--datadir="+first, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, made)
	}
	// Who reaches a server may do everything: nobody but the test reaches its network.
	boot := exec.Command(filepath.Join(bin, "mariadbd"), "--no-defaults", "--bootstrap", "--datadir="+first)
	if os.Geteuid() == 0 {
		boot.Args = append(boot.Args, "--user=root")
	}
	boot.Stdin = strings.NewReader("flush privileges;\ncreate user root@'%';\ngrant all on *.* to root@'%' with grant option;\n")
	if out, err := boot.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, node := range nodes {
		if node != nodes[0] {
			if out, err := exec.Command("cp", "-r", first, node.root).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		if os.Geteuid() == 0 {
			if out, err := exec.Command("chown", "-R", "mysql", node.root).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
	}
	return nil
}

// settings are the options with which a node runs.
func (n *Node) settings(i int, library string) []string {
	var members []string
	for _, other := range n.cluster.Nodes {
		members = append(members, fmt.Sprintf("%s:%d", other.place.host, other.place.group))
	}
	p := n.place
	all := []string{
		"--no-defaults", "--datadir=" + filepath.Join(n.root, "data"), "--tmpdir=" + n.root, "--socket=" + filepath.Join(n.root, "socket"),
		fmt.Sprint("--port=", p.client), "--bind-address=" + p.host, "--skip-name-resolve", "--performance-schema=off",
		"--innodb-buffer-pool-size=128M", "--innodb-log-file-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-print-all-deadlocks=on",
		"--max-connections=1000", "--table-open-cache=2000",
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON", "--wsrep-provider=" + library, "--wsrep-cluster-name=dibs",
		"--wsrep-cluster-address=gcomm://" + strings.Join(members, ","), fmt.Sprint("--wsrep-node-name=n", i+1),
		fmt.Sprintf("--wsrep-node-address=%s:%d", p.host, p.group), "--wsrep-slave-threads=2",
		"--wsrep-sst-method=rsync", fmt.Sprintf("--wsrep-sst-receive-address=%s:%d", p.host, p.cp),
		fmt.Sprintf("--wsrep-provider-options=base_host=%s;base_port=%d;gmcast.listen_addr=tcp://%s:%d;ist.recv_addr=%s:%d;gcache.size=128M",
			p.host, p.group, p.host, p.group, p.host, p.ist),
	}
	if os.Geteuid() == 0 {
		all = append(all, "--user=mysql")
	}
	return all
}

// nodeScript obeys orders. A killed node finds out where its data stand, so that it gets from others only what it lacks. When the
// process has ended that runs the tests, it kills the server and deletes its files.
const nodeScript = `
root=$1 program=$2
shift 2
pid=
trap '[ -z "$pid" ] || kill -KILL $pid; rm -rf "$root"' EXIT
echo ready
while read -r order options; do
	case $order in
	start)
		at=
		if [ -e "$root/data/grastate.dat" ]; then
			at=$("$program" "$@" --wsrep-recover 2>&1 | sed -n 's/.*Recovered position: *//p' | tail -n 1)
		fi
		"$program" "$@" $options ${at:+--wsrep-start-position=$at} </dev/null >>"$root/log" 2>&1 &
		pid=$! ;;
	kill) kill -KILL $pid; wait $pid 2>/dev/null; pid= ;;
	stop) kill -TERM $pid; wait $pid 2>/dev/null; pid= ;;
	freeze) kill -STOP $pid ;;
	thaw) kill -CONT $pid ;;
	esac
	echo done
done`

// watch starts the guard of a node, which obeys orders.
func (n *Node) watch(program string, settings []string) (err error) {
	args := append([]string{"-c", nodeScript, "guard", n.root, program}, settings...)
	name := "sh"
	if n.cluster.net != nil {
		name, args = "unshare", append([]string{"-n", "sh"}, args...)
	}
	n.guard = exec.Command(name, args...)
	detach(n.guard)
	if n.orders, err = n.guard.StdinPipe(); err != nil { // it stays open until this process ends
		return err
	}
	out, err := n.guard.StdoutPipe()
	if err != nil {
		return err
	}
	if err := n.guard.Start(); err != nil {
		return err
	}
	n.answers = bufio.NewScanner(out)
	if !n.answers.Scan() {
		return errors.New("the guard of a node did not start")
	}
	if n.cluster.net != nil {
		return n.cluster.net.connect(n.guard.Process.Pid, n.place.host)
	}
	return nil
}

func (n *Node) order(text string) error {
	if _, err := fmt.Fprintln(n.orders, text); err != nil {
		return err
	}
	if !n.answers.Scan() {
		return fmt.Errorf("the guard of a node has ended; %s", n.tail())
	}
	return nil
}

// Kill ends the node with SIGKILL.
func (n *Node) Kill() error { return n.order("kill") }

// Stop has the node leave the cluster and end.
func (n *Node) Stop() error { return n.order("stop") }

// Start starts a node that was killed or stopped. Joined waits until it takes part.
func (n *Node) Start() error { return n.order("start") }

// Freeze stops the node's process.
func (n *Node) Freeze() error { return n.order("freeze") }

// Thaw has a frozen process go on.
func (n *Node) Thaw() error { return n.order("thaw") }

// Joined waits until the node is a synchronized part of a cluster of so many nodes.
func (n *Node) Joined(members int) error {
	ctx, cancel := context.WithTimeout(context.Background(), joinWithin)
	defer cancel()
	pool, err := sql.Open("mysql", n.server()+"?timeout=1s&readTimeout=2s")
	if err != nil {
		return err
	}
	defer pool.Close()
	var last error
	for {
		var size, state string
		err := pool.QueryRowContext(ctx, `select
			max(case when variable_name = 'wsrep_cluster_size' then variable_value end),
			max(case when variable_name = 'wsrep_local_state_comment' then variable_value end)
			from information_schema.global_status where variable_name in ('wsrep_cluster_size', 'wsrep_local_state_comment')`).Scan(&size, &state)
		if err == nil && state == "Synced" && size == fmt.Sprint(members) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("a node did not join: %s of %d members, %q, %w; %s", size, members, state, errors.Join(last, ctx.Err()), n.tail())
		}
		last = err
		time.Sleep(50 * time.Millisecond)
	}
}

// server is the node's address without a database.
func (n *Node) server() string { return fmt.Sprintf("root@tcp(%s)/", n.Host()) }

// Host is the node's host and port.
func (n *Node) Host() string { return fmt.Sprintf("%s:%d", n.place.host, n.place.client) }

// Address is the address of the cluster's database by way of this node, as the driver writes it.
func (n *Node) Address() string { return n.server() + "dibs" }

// Hosts are the hosts and ports of all nodes, with commas between them.
func (c *Cluster) Hosts() string {
	hosts := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		hosts[i] = n.Host()
	}
	return strings.Join(hosts, ",")
}

// tail is the end of the node's log.
func (n *Node) tail() string {
	text, err := os.ReadFile(filepath.Join(n.root, "log"))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("its log ends with:\n%s", text[max(0, len(text)-4000):])
}

func (c *Cluster) close() {
	for _, n := range c.Nodes {
		if n.orders != nil {
			_ = n.orders.Close() // the guard then kills the server and deletes its files
			_ = n.guard.Wait()
		} else if n.root != "" {
			_ = os.RemoveAll(n.root) // what is left is in a temporary folder
		}
	}
	c.net.close()
}

// Database makes another database, which is dropped when the test ends, and returns its name.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	name := "dibs_test_" + strings.ToLower(rand.Text())
	if err := administer(c.Nodes[0].server(), "create database "+name); err != nil {
		t.Fatalf("mytest: make a database: %v", err)
	}
	for _, n := range c.Nodes[1:] {
		for administer(n.server(), "show tables in "+name) != nil { // it is still to come there
			time.Sleep(time.Millisecond)
		}
	}
	t.Cleanup(func() {
		if err := administer(c.Nodes[0].server(), "drop database "+name); err != nil {
			t.Errorf("mytest: drop the test's database: %v", err)
		}
	})
	return name
}
