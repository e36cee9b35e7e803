package fabric

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// A job of this test is processes that run a program of the test binary and
// exchange exports over sockets at rank 0.
type job struct {
	rank, size int
	peers      []*net.UnixConn // at rank 0 by rank; else that of rank 0 as the only one
}

const (
	programVariable = "WEFT_TEST_FABRIC_PROGRAM"
	meetVariable    = "WEFT_TEST_FABRIC_MEET"
	rankVariable    = "WEFT_TEST_FABRIC_RANK"
	sizeVariable    = "WEFT_TEST_FABRIC_SIZE"
)

var programs = map[string]func(j *job) error{
	"operations": operationsProgram,
	"dead":       deadProgram,
	"stopped":    stoppedProgram,
	"rate":       rateProgram,
}

func TestMain(m *testing.M) {
	name := os.Getenv(programVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	j, err := connect()
	if err == nil {
		err = programs[name](j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rank", j.rank, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// number is the first of some environment variables that is set.
func number(names ...string) (int, error) {
	for _, n := range names {
		if v, ok := os.LookupEnv(n); ok {
			return strconv.Atoi(v)
		}
	}
	return 0, fmt.Errorf("none of %v is set", names)
}

func connect() (*job, error) {
	j := &job{}
	var err error
	if j.rank, err = number(rankVariable, "OMPI_COMM_WORLD_RANK"); err != nil {
		return j, err
	}
	if j.size, err = number(sizeVariable, "OMPI_COMM_WORLD_SIZE"); err != nil {
		return j, err
	}
	at := &net.UnixAddr{Name: os.Getenv(meetVariable), Net: "unixpacket"}
	if j.rank == 0 {
		l, err := net.ListenUnix("unixpacket", at)
		if err != nil {
			return j, err
		}
		defer l.Close()
		j.peers = make([]*net.UnixConn, j.size)
		for range j.size - 1 {
			c, err := l.AcceptUnix()
			if err != nil {
				return j, err
			}
			var who [1]byte
			if _, err := c.Read(who[:]); err != nil {
				return j, err
			}
			j.peers[who[0]] = c
		}
		return j, nil
	}
	for range 1000 {
		c, derr := net.DialUnix("unixpacket", nil, at)
		if err = derr; err == nil {
			j.peers = []*net.UnixConn{c}
			_, err = c.Write([]byte{byte(j.rank)})
			return j, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return j, err
}

func send(c *net.UnixConn, x transport.Exported) error {
	var rights []byte
	if x.File != nil {
		rights = unix.UnixRights(int(x.File.Fd()))
	}
	_, _, err := c.WriteMsgUnix(x.Handle[:], rights, nil)
	return err
}

func receive(c *net.UnixConn) (x transport.Exported, err error) {
	oob := make([]byte, 64)
	n, m, _, _, err := c.ReadMsgUnix(x.Handle[:], oob)
	if err != nil {
		return x, err
	}
	if n != len(x.Handle) {
		return x, errors.New("the peer is gone")
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil {
		return x, err
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return x, err
		}
		x.File = os.NewFile(uintptr(fds[0]), "weft")
	}
	return x, nil
}

// exchange is the job's all-gather.
func (j *job) exchange(_ context.Context, mine transport.Exported) ([]transport.Exported, error) {
	all := make([]transport.Exported, j.size)
	if j.rank != 0 {
		if err := send(j.peers[0], mine); err != nil {
			return nil, err
		}
		for r := range all {
			var err error
			if all[r], err = receive(j.peers[0]); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	all[0].Handle = mine.Handle
	if mine.File != nil {
		fd, err := unix.FcntlInt(mine.File.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		all[0].File = os.NewFile(uintptr(fd), "weft")
	}
	for r := 1; r < j.size; r++ {
		var err error
		if all[r], err = receive(j.peers[r]); err != nil {
			return nil, err
		}
	}
	for r := 1; r < j.size; r++ {
		for _, x := range all {
			if err := send(j.peers[r], x); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (j *job) barrier() error {
	_, err := j.exchange(context.Background(), transport.Exported{})
	return err
}

// runJob runs a program on n processes and wants all to end well, except those
// in dying.
func runJob(t *testing.T, n int, program string, dying map[int]bool, env ...string) {
	meet := fmt.Sprintf("@weft-fabric-test-%d-%x", os.Getpid(), rand.Uint64())
	exe, err := os.Executable()
	require.NoError(t, err)
	var cmds []*exec.Cmd
	var outs []*strings.Builder
	for r := range n {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), append(env, programVariable+"="+program, meetVariable+"="+meet,
			rankVariable+"="+strconv.Itoa(r), sizeVariable+"="+strconv.Itoa(n))...)
		out := &strings.Builder{}
		cmd.Stdout, cmd.Stderr = out, out
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	ended := make(chan struct{})
	timer := time.AfterFunc(90*time.Second, func() {
		for _, c := range cmds {
			c.Process.Kill()
		}
		close(ended)
	})
	for r, c := range cmds {
		err := c.Wait()
		if dying[r] {
			require.Error(t, err, "rank %d", r)
			continue
		}
		if err != nil {
			t.Errorf("rank %d: %v: %s", r, err, outs[r])
		}
	}
	if !timer.Stop() {
		t.Fatal("the job took too long")
	}
	for r, out := range outs {
		if out.Len() > 0 {
			t.Logf("rank %d: %s", r, out)
		}
	}
}

// open makes a fabric of the mode that the environment asks for.
func (j *job) open(opts ...Option) (*Transport, error) {
	mode, err := number("WEFT_TEST_FABRIC_MODE")
	if err != nil {
		return nil, err
	}
	return NewShared(append(opts, WithMode(Mode(mode)), WithRank(j.rank), WithFaults(""))...)
}

// ranks of the job: their endpoints as this rank knows them.
func (j *job) importAll(t *Transport, own transport.Endpoint) ([]transport.Endpoint, error) {
	x, err := own.Export()
	if err != nil {
		return nil, err
	}
	all, err := j.exchange(context.Background(), x)
	x.Close()
	if err != nil {
		return nil, err
	}
	eps := make([]transport.Endpoint, j.size)
	for r, x := range all {
		if r != j.rank {
			if eps[r], err = t.Import(x); err != nil {
				return nil, err
			}
			if err := eps[r].Ready(context.Background()); err != nil {
				return nil, err
			}
		}
		x.Close()
	}
	return eps, nil
}

// end ends a phase of one arrival, which must be clean.
func end(c transport.Completion) error {
	r, err := endPhase(c)
	if err == nil && !r.Clean() {
		err = fmt.Errorf("report: %v", r)
	}
	return err
}

func endPhase(c transport.Completion) (transport.Report, error) {
	if err := c.Submit(); err != nil {
		return transport.Report{}, err
	}
	if err := c.Arrive(); err != nil {
		return transport.Report{}, err
	}
	for start := time.Now(); !c.Test(); time.Sleep(10 * time.Microsecond) {
		if time.Since(start) > 20*time.Second {
			return transport.Report{}, errors.New("the phase does not end")
		}
	}
	return c.Report()
}

// TestProcesses runs the operations program on processes started by this one,
// and by mpirun.
func TestProcesses(t *testing.T) {
	for mode := ModeDefault; mode <= ModeFast; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			runJob(t, 3, "operations", nil, "WEFT_TEST_FABRIC_MODE="+strconv.Itoa(int(mode)))
		})
		t.Run("mpirun/"+mode.String(), func(t *testing.T) {
			if _, err := exec.LookPath("mpirun"); err != nil {
				t.Skip("no mpirun")
			}
			exe, err := os.Executable()
			require.NoError(t, err)
			args := []string{"--oversubscribe", "-np", "3", exe}
			if os.Getuid() == 0 {
				args = append([]string{"--allow-run-as-root"}, args...)
			}
			cmd := exec.CommandContext(t.Context(), "mpirun", args...)
			cmd.Env = append(os.Environ(), programVariable+"=operations", "WEFT_TEST_FABRIC_MODE="+strconv.Itoa(int(mode)),
				fmt.Sprintf("%s=@weft-fabric-test-%d-%x", meetVariable, os.Getpid(), rand.Uint64()))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

// operationsProgram has every rank use every other's endpoint, a multicast
// endpoint, and memory that is bound anew under the imports.
func operationsProgram(j *job) error {
	const size, rounds = 16 << 10, 50
	t, err := j.open()
	if err != nil {
		return err
	}
	var mems [2]transport.Memory
	for i := range mems {
		if mems[i], err = t.Alloc(size); err != nil {
			return err
		}
	}
	own, err := t.Create(transport.EndpointConfig{Size: size, Counted: true})
	if err != nil {
		return err
	}
	if err := own.Ready(context.Background()); err != nil {
		return err
	}
	eps, err := j.importAll(t, own) // before anything is bound
	if err != nil {
		return err
	}
	c, err := t.NewCompletion(1)
	if err != nil {
		return err
	}
	src, got := make([]byte, 2048), make([]byte, 2048)
	fill := func(r, round int) []byte {
		rng := rand.New(rand.NewPCG(uint64(r), uint64(round)))
		b := make([]byte, len(src))
		for o := 0; o < len(b); o += 8 {
			binary.NativeEndian.PutUint64(b[o:], rng.Uint64())
		}
		return b
	}
	one := make([]byte, 16)
	one[0] = 1
	for round := range rounds {
		m := mems[round%2]
		clear(m.Bytes())
		t.Fence(transport.FenceRelease)
		if err := own.Bind(0, m); err != nil {
			return err
		}
		if err := j.barrier(); err != nil {
			return err
		}
		copy(src, fill(j.rank, round))
		for r, ep := range eps {
			if r == j.rank {
				continue
			}
			at := transport.Handle{ID: ep.ID(), Offset: 4096 + uint64(j.rank)*2048}
			if err := errors.Join(
				t.PutCounted(c, at, src, 0),
				t.Red(c, transport.Handle{ID: ep.ID(), Offset: 512}, one, transport.RedAdd, kernels.TypeUint64),
				t.Atom(c, got, transport.Handle{ID: ep.ID(), Offset: 768}, one, transport.RedAdd, kernels.TypeUint64),
				end(c),
				t.Get(c, got, at), end(c),
			); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if string(got) != string(src) {
				return fmt.Errorf("round %d: read back from %d differs", round, r)
			}
		}
		// Wait for the others asleep, as a rank does.
		want := uint64(j.size-1) * 2048
		bell := m.Doorbell()
		for start := time.Now(); m.Load(0) < want; {
			ticket := bell.Arm()
			if m.Load(0) < want {
				bell.Sleep(ticket, time.Second)
			}
			bell.Disarm()
			if time.Since(start) > 20*time.Second {
				return errors.New("the counter does not come")
			}
		}
		t.Fence(transport.FenceAcquire)
		if err := j.barrier(); err != nil {
			return err
		}
		for r := range j.size {
			if r != j.rank && string(m.Bytes()[4096+r*2048:][:2048]) != string(fill(r, round)) {
				return fmt.Errorf("round %d: what came from %d differs", round, r)
			}
		}
		if m.Load(512) != uint64(j.size-1) || m.Load(768) != uint64(j.size-1) || m.Load(0) != want {
			return fmt.Errorf("round %d: words %d, %d, %d", round, m.Load(0), m.Load(512), m.Load(768))
		}
		if err := own.Unbind(0, size); err != nil {
			return err
		}
	}
	if err := j.multicast(t, mems[0], c); err != nil {
		return err
	}
	if err := j.barrier(); err != nil {
		return err
	}
	err = t.Close()
	for _, m := range mems {
		err = errors.Join(err, m.Free())
	}
	return err
}

func (j *job) multicast(t *Transport, m transport.Memory, c transport.Completion) error {
	cfg := transport.EndpointConfig{Size: m.Size(), Counted: true}
	clear(m.Bytes())
	t.Fence(transport.FenceRelease)
	ep, err := t.JoinMulticast(context.Background(), cfg, j.rank, j.size, m, j.exchange)
	if err != nil {
		return err
	}
	src, got := make([]byte, 1024), make([]byte, 1024)
	for i := range src {
		src[i] = byte(j.rank + 1)
	}
	if err := errors.Join(t.PutCountedMultimem(c, transport.Handle{ID: ep.ID(), Offset: 1024 * uint64(1+j.rank)}, src, 0), end(c)); err != nil {
		return err
	}
	if err := j.barrier(); err != nil {
		return err
	}
	if err := errors.Join(t.PullRed(c, got, transport.Handle{ID: ep.ID(), Offset: 1024}, transport.RedAdd, kernels.TypeUint32), end(c)); err != nil {
		return err
	}
	if v := binary.NativeEndian.Uint32(got); v != uint32(j.size)*0x01010101 || m.Load(0) != uint64(1024*j.size) {
		return fmt.Errorf("multicast: sum %#x, counter %d", v, m.Load(0))
	}
	if err := j.barrier(); err != nil {
		return err
	}
	return ep.Destroy()
}

// owner makes an endpoint that rank 1 imports.
func (j *job) owner(t *Transport, size uint64) (transport.Memory, transport.Endpoint, error) {
	m, err := t.Alloc(size)
	if err != nil {
		return nil, nil, err
	}
	e, err := t.Create(transport.EndpointConfig{Size: size, Counted: true})
	if err != nil {
		return nil, nil, err
	}
	if err := e.Ready(context.Background()); err != nil {
		return nil, nil, err
	}
	return m, e, e.Bind(0, m)
}

// deadProgram: rank 1 is killed in the middle of a piece. Rank 0 cleans up in
// bounded time.
func deadProgram(j *job) error {
	t, err := j.open()
	if err != nil {
		return err
	}
	m, e, err := j.owner(t, 64<<10)
	if err != nil {
		return err
	}
	eps, err := j.importAll(t, e)
	if err != nil {
		return err
	}
	if j.rank == 1 {
		(*eps[0].(*endpoint).parts.Load())[0].enter()
		if err := j.barrier(); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if err := j.barrier(); err != nil {
		return err
	}
	start := time.Now()
	var one [1]byte
	_, _ = j.peers[1].Read(one[:]) // until it is dead
	if err := errors.Join(e.Destroy(), m.Free()); err != nil {
		return err
	}
	if !m.(*memory).quarantined {
		return errors.New("memory that was being written is used again")
	}
	if err := t.Close(); err != nil {
		return err
	}
	if d := time.Since(start); d > 10*time.Second {
		return fmt.Errorf("it took %v", d)
	}
	return nil
}

func TestDeadRank(t *testing.T) {
	runJob(t, 2, "dead", map[int]bool{1: true}, "WEFT_TEST_FABRIC_MODE=0")
}

// stoppedProgram: rank 1 is stopped in the middle of a piece, and goes on long
// after rank 0 has unbound and freed. What it writes then must harm nobody.
func stoppedProgram(j *job) error {
	const size = 64 << 10
	t, err := j.open()
	if err != nil {
		return err
	}
	m, e, err := j.owner(t, size)
	if err != nil {
		return err
	}
	eps, err := j.importAll(t, e)
	if err != nil {
		return err
	}
	if j.rank == 1 {
		p := (*eps[0].(*endpoint).parts.Load())[0]
		v := p.enter()
		var pid transport.Exported
		binary.LittleEndian.PutUint64(pid.Handle[:], uint64(os.Getpid()))
		if _, err := j.exchange(context.Background(), pid); err != nil {
			return err
		}
		if err := j.barrier(); err != nil { // as good as stopped until here
			return err
		}
		for i := range v.segments[0].data {
			v.segments[0].data[i] = 0xee
		}
		p.leave()
		if err := j.barrier(); err != nil {
			return err
		}
		return t.Close()
	}
	if _, err := j.exchange(context.Background(), transport.Exported{}); err != nil {
		return err
	}
	if err := errors.Join(e.Unbind(0, size), m.Free()); err != nil {
		return err
	}
	var later []transport.Memory
	for range 20 {
		m, err := t.Alloc(size)
		if err != nil {
			return err
		}
		later = append(later, m)
	}
	if err := j.barrier(); err != nil {
		return err
	}
	if err := j.barrier(); err != nil {
		return err
	}
	for _, m := range later {
		for i, b := range m.Bytes() {
			if b != 0 {
				return fmt.Errorf("byte %d of memory allocated later is %#x", i, b)
			}
		}
		if err := m.Free(); err != nil {
			return err
		}
	}
	return t.Close()
}

func TestStoppedRank(t *testing.T) {
	runJob(t, 2, "stopped", nil, "WEFT_TEST_FABRIC_MODE=0")
}

// rateProgram moves 1 GiB by puts in the fast mode and 1 GiB by plain copies
// into the same memory, and compares the best rates of a phase.
func rateProgram(j *job) error {
	const size, bytes = 16 << 20, 1 << 30
	t, err := j.open()
	if err != nil {
		return err
	}
	m, e, err := j.owner(t, size)
	if err != nil {
		return err
	}
	eps, err := j.importAll(t, e)
	if err != nil {
		return err
	}
	defer m.Free()
	if j.rank == 1 {
		c, err := t.NewCompletion(1)
		if err != nil {
			return err
		}
		src := make([]byte, transport.MaxPutBytes)
		for i := range src {
			src[i] = byte(i)
		}
		dst := (*eps[0].(*endpoint).parts.Load())[0].view().segments[0].data
		var ratio float64
		for attempt := 0; attempt < 5 && ratio < 0.9; attempt++ {
			best := [2]time.Duration{time.Hour, time.Hour}
			for range bytes / size {
				for way := range best {
					start := time.Now()
					if way == 0 {
						copy(dst, src)
					} else if err := errors.Join(t.Put(c, transport.Handle{ID: eps[0].ID()}, src), end(c)); err != nil {
						return err
					}
					best[way] = min(best[way], time.Since(start))
				}
			}
			ratio = max(ratio, float64(best[0])/float64(best[1]))
		}
		fmt.Printf("puts move bytes at %.2f of the rate of a copy\n", ratio)
		if ratio < 0.9 {
			return fmt.Errorf("%.2f of the rate of a copy", ratio)
		}
	}
	return errors.Join(j.barrier(), t.Close())
}

// TestRate: what the best of many phases takes hardly depends on what else the
// machine does.
func TestRate(t *testing.T) {
	runJob(t, 2, "rate", nil, "WEFT_TEST_FABRIC_MODE="+strconv.Itoa(int(ModeFast)))
}
