//go:build linux

package bootstrap

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func memfd(content string) (*os.File, error) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memfd")
	_, err = f.WriteString(content)
	return f, err
}

// connectRanks starts ranks and waits until they are connected.
func connectRanks(t *testing.T, envs []env) []*rank {
	t.Helper()
	ranks := startRanks(t, envs)
	reconnect(ranks)
	return ranks
}

func reconnect(ranks []*rank) {
	for _, r := range ranks {
		r.do("connect 20000")
	}
	for i, r := range ranks {
		require.Equal(r.t, fmt.Sprintf("%d/%d weft run", i, len(ranks)), r.expect("connected"))
	}
}

func closeRanks(ranks []*rank) {
	for _, r := range ranks {
		r.do("close 5000")
	}
	for _, r := range ranks {
		require.Regexp(r.t, "^true", r.expect("closed"))
	}
}

func TestProcesses(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ranks := connectRanks(t, job(n, nil))
			for i, r := range ranks {
				for to := range ranks {
					r.do("send %d %d", to, i)
				}
			}
			for _, r := range ranks {
				for from := range ranks {
					r.expect(fmt.Sprintf("msg %d kind=1 len=%d", from, from))
				}
			}
			closeRanks(ranks)
			for i, r := range ranks {
				for j := range ranks {
					if i != j {
						require.Regexp(t, "gone=false$", r.expect(fmt.Sprintf("gone %d", j)))
					}
				}
			}
		})
	}
}

func TestProcessesPassFiles(t *testing.T) {
	ranks := connectRanks(t, job(2, nil))
	ranks[0].do("file 1")
	require.Equal(t, "content", ranks[1].expect("file"))
	require.Eventually(t, func() bool {
		ranks[0].do("look")
		return ranks[0].expect("looked") == "seen"
	}, 5*time.Second, time.Millisecond)
	closeRanks(ranks)
}

// TestProcessesReconnect checks that nothing is left of 50 channels.
func TestProcessesReconnect(t *testing.T) {
	ranks := connectRanks(t, job(3, nil))
	closeRanks(ranks)
	count := func() (counts []int) {
		for _, r := range ranks {
			r.do("count")
			var goroutines, descriptors int
			_, err := fmt.Sscan(r.expect("counted"), &goroutines, &descriptors)
			require.NoError(t, err)
			counts = append(counts, goroutines, descriptors)
		}
		return counts
	}
	before := count()
	for range 50 {
		reconnect(ranks)
		ranks[2].do("send 0 10")
		ranks[0].expect("msg 2")
		closeRanks(ranks)
	}
	// Fewer, if some of the first channel were still ending.
	require.Eventually(t, func() bool {
		for i, n := range count() {
			if n > before[i] {
				return false
			}
		}
		return true
	}, 5*time.Second, 10*time.Millisecond, "goroutines and descriptors before: %v", before)
}

// TestProcessKilled checks how soon the others know, also when they are busy.
func TestProcessKilled(t *testing.T) {
	const limit = 5 * time.Second // of a busy machine; without the end of the connection it would be more
	for _, tt := range []struct {
		name  string
		nodes bool
		spin  bool
	}{
		{"idle", false, false},
		{"spinning", false, true},
		{"nodes", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			more := env{"GOMAXPROCS": "1"}
			if tt.nodes {
				more = more.with(env{"WEFT_ROOT": freePort(t), "WEFT_TOKEN": "s"})
			}
			envs := job(3, more)
			if tt.nodes {
				for i, e := range envs {
					e["WEFT_NODE"] = fmt.Sprint(i)
				}
			}
			ranks := connectRanks(t, envs)
			if tt.spin {
				ranks[0].do("spin")
				ranks[0].expect("spinning")
			}
			ranks[2].do("send 0 7") // arrives before the end is told
			ranks[0].expect("msg 2 kind=1 len=7")
			time.Sleep(50 * time.Millisecond) // let the schedulers settle
			start := time.Now()
			require.NoError(t, ranks[2].cmd.Process.Kill())
			for _, r := range ranks[:2] {
				var at int64
				var gone bool
				_, err := fmt.Sscanf(r.expect("gone 2"), "at=%d gone=%t", &at, &gone)
				require.NoError(t, err)
				require.True(t, gone)
				after := time.Unix(0, at).Sub(start)
				t.Logf("known after %v", after)
				require.Less(t, after, limit)
			}
			ranks[1].do("send 2 1")
			require.Regexp(t, "^false", ranks[1].expect("sent"))
			ranks[1].do("send 0 9") // the others go on
			ranks[0].expect("msg 1 kind=1 len=9")
			closeRanks(ranks[:2])
		})
	}
}

// TestProcessExits checks that an exit without Close counts as death.
func TestProcessExits(t *testing.T) {
	ranks := connectRanks(t, job(2, nil))
	ranks[1].do("exit 0")
	require.Regexp(t, "gone=true$", ranks[0].expect("gone 1"))
	closeRanks(ranks[:1])
}

// TestProcessStopped checks that a stopped process blocks neither Send nor
// Close, and goes on as if nothing had been when it continues.
func TestProcessStopped(t *testing.T) {
	for _, nodes := range []bool{false, true} {
		t.Run(fmt.Sprintf("nodes=%t", nodes), func(t *testing.T) {
			envs := job(3, nil)
			if nodes {
				envs = job(3, env{"WEFT_ROOT": freePort(t), "WEFT_TOKEN": "s"})
				for i, e := range envs {
					e["WEFT_NODE"] = fmt.Sprint(i)
				}
			}
			ranks := connectRanks(t, envs)
			require.NoError(t, ranks[2].cmd.Process.Signal(syscall.SIGSTOP))
			ranks[0].do("flood 2 200")
			require.Regexp(t, "^true", ranks[0].expect("flooded"))
			ranks[1].do("flood 2 200")
			require.Regexp(t, "^true", ranks[1].expect("flooded"))
			ranks[0].do("send 1 3") // others are not held up
			ranks[1].expect("msg 0 kind=1 len=3")
			ranks[0].do("close 100")
			var ok bool
			var ms int
			_, err := fmt.Sscan(ranks[0].expect("closed"), &ok, &ms)
			require.NoError(t, err)
			require.False(t, ok, "not all was delivered")
			require.Less(t, ms, 5000, "less than Close waits by itself")
			require.NoError(t, ranks[2].cmd.Process.Signal(syscall.SIGCONT))
			for range 200 {
				ranks[2].expect("msg 1 kind=1")
			}
			// The kernel may have had all of it, goodbye included.
			require.Regexp(t, "gone=(true|false)$", ranks[2].expect("gone 0"))
			closeRanks(ranks[1:])
		})
	}
}

// TestProcessUnresponsive checks that one who takes nothing for too long is given up.
func TestProcessUnresponsive(t *testing.T) {
	ranks := connectRanks(t, job(2, nil))
	require.NoError(t, ranks[1].cmd.Process.Signal(syscall.SIGSTOP))
	ranks[0].do("flood 1 2000")
	require.Regexp(t, "^false", ranks[0].expect("flooded"))
	require.Regexp(t, "gone=true$", ranks[0].expect("gone 1"))
	closeRanks(ranks[:1])
}

// TestProcessMissing checks that ranks that wait learn who dies meanwhile.
func TestProcessMissing(t *testing.T) {
	ranks := startRanks(t, job(3, nil)[:2])
	ranks[0].do("connect 20000") // it gives up before rank 1 does
	ranks[1].do("connect 1500")
	for _, r := range ranks {
		require.Contains(t, r.expect("connect failed:"), "rank 2")
	}
	ranks[0].expect("joined 1")
	ranks[0].do("connect 20000")
	ranks[1].do("connect 20000")
	ranks[0].expect("joined 1")
	require.NoError(t, ranks[1].cmd.Process.Kill())
	require.Contains(t, ranks[0].expect("connect failed:"), "process is gone: rank 1")
}

// TestProxyIdentity checks that ranks started through shells of their own still
// find the one proxy that created the ends of their PMI sockets.
func TestProxyIdentity(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	require.Contains(t, proxyIdentity(fmt.Sprint(fds[0])), fmt.Sprintf("proxy=%d,", os.Getpid()))
	require.Contains(t, proxyIdentity(""), fmt.Sprintf("proxy=%d,", os.Getppid()))
	require.Contains(t, proxyIdentity("9999"), fmt.Sprintf("proxy=%d,", os.Getppid()))
}
