package bootstrap

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultConnectTimeout bounds [Connect] when its context has no deadline.
	DefaultConnectTimeout = 60 * time.Second
	// DefaultCloseTimeout bounds [Channel].Close when its context has no deadline.
	DefaultCloseTimeout = 10 * time.Second
)

// A Config changes how [Connect] works. The zero value is what programs want.
type Config struct {
	// Logger gets debug messages; nil discards them.
	Logger *slog.Logger
	// LookupEnv reads the environment; nil means os.LookupEnv.
	LookupEnv func(name string) (string, bool)

	refuse string       // see Refuse
	tweak  func(*party) // for tests
}

// generations counts, for each job that this process belongs to, how often it
// has connected: the second channel of a job must not meet the first one.
var generations = struct {
	sync.Mutex
	of map[string]int
}{of: map[string]int{}}

func generation(job string) int {
	generations.Lock()
	defer generations.Unlock()
	return generations.of[job]
}

func nextGeneration(job string) {
	generations.Lock()
	defer generations.Unlock()
	generations.of[job]++
}

// Connect finds out which rank of which job this process is, meets the other
// ranks, and returns the channel between them. All ranks must call it, equally
// often. It gives up when ctx ends, or after [DefaultConnectTimeout] when ctx
// has no deadline; either all ranks get a channel or, barring a process that
// dies at the last moment, all get an error.
//
// Errors are of type [*LaunchError] or [*JoinError].
func Connect(ctx context.Context, cfg Config) (Channel, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.LookupEnv == nil {
		cfg.LookupEnv = os.LookupEnv
	}
	ctx, cancel := bounded(ctx, DefaultConnectTimeout)
	defer cancel()
	l, err := detect(cfg.LookupEnv)
	if err != nil && l.size > 1 { // the others would wait for this rank
		cfg.refuse = cmp.Or(cfg.refuse, reason(err.Error()))
		ctx, cancel := context.WithTimeout(ctx, refuseTime)
		defer cancel()
		if ch, err := connect(ctx, cfg, l); err == nil {
			ch.Close(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return connect(ctx, cfg, l)
}

func connect(ctx context.Context, cfg Config, l launch) (Channel, error) {
	cfg.Logger.Debug("weft: launch", "source", l.source, "rank", l.rank, "size", l.size, "seen", l.seen)
	if useMPI(l) {
		return connectMPI(ctx, cfg, l)
	}
	return connectEnv(ctx, cfg, l)
}

const (
	// refuseTime bounds how long Refuse looks for the other ranks.
	refuseTime = 2 * time.Second
	// maxReason bounds what it tells them.
	maxReason = 1024
)

// Refuse is called instead of [Connect] by a rank that can't take part in the job, such
// as one with wrong settings: the Connect of all others returns an [ErrRefused] with
// the rank and the reason. It returns when they know, if they are there, and after two
// seconds otherwise.
func Refuse(ctx context.Context, cfg Config, why string) {
	ctx, cancel := context.WithTimeout(ctx, refuseTime)
	defer cancel()
	cfg.refuse = reason(why)
	if ch, err := Connect(ctx, cfg); err == nil { // a rank on its own
		ch.Close(ctx)
	}
}

// reason is why a rank refuses, as it can be sent.
func reason(why string) string {
	why = strings.ToValidUTF8(why[:min(len(why), maxReason)], "")
	return cmp.Or(strings.TrimPrefix(why, "weft: "), "no reason given")
}

// bounded gives ctx a deadline, if it has none.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// connectEnv connects ranks that know each other from the environment.
func connectEnv(ctx context.Context, cfg Config, l launch) (Channel, error) {
	p := newParty(cfg, l)
	switch {
	case l.size == 0:
		return nil, &LaunchError{l.seen, "the launcher does not say how many ranks there are",
			"build with -tags mpi, or set WEFT_RANK, WEFT_SIZE and WEFT_JOB, " + orSingle}
	case l.size == 1:
		p.me = p.describe()
		return newMesh(cfg.Logger, l.source, 0, &outcome{members: []member{p.me}, links: make([]*conn, 1)}, nil), nil
	case !multiProcess:
		return nil, &LaunchError{l.seen, "ranks in several processes need Linux", "use ranks in one process, " + orSingle}
	}
	job := l.job
	if l.root != "" {
		job = l.root
	}
	if job == "" && l.source == "env:PMI" {
		fd, _ := cfg.LookupEnv("PMI_FD")
		job = proxyIdentity(fd)
	}
	if job == "" {
		return nil, &LaunchError{l.seen, "nothing tells this job from others", "set WEFT_JOB to a value that only its ranks share"}
	}
	job = l.source + ":" + job
	p.gen = generation(job)
	if err := p.choose(l, job); err != nil {
		return nil, err
	}
	if cfg.tweak != nil {
		cfg.tweak(p)
	}
	c, err := p.connect(ctx, l.source, nil)
	if err != nil {
		return nil, err
	}
	nextGeneration(job)
	return c, nil
}

// choose decides where rank 0 waits, and begins to listen there on rank 0.
func (p *party) choose(l launch, job string) error {
	if l.root == "" && l.nodes {
		return &LaunchError{l.seen, "the ranks are on several nodes, and nothing says where rank 0 is",
			"set WEFT_ROOT=host:port of rank 0 and WEFT_TOKEN to a secret, or build with -tags mpi"}
	}
	if l.root == "" {
		p.route.unix = rootName(p.uid, job, p.gen)
		return nil
	}
	if l.busy {
		return &LaunchError{"TORCHELASTIC_USE_AGENT_STORE=True", "torchrun itself listens at " + l.root,
			"set WEFT_ROOT=host:port of rank 0 with a free port"}
	}
	if l.token == "" {
		return &LaunchError{l.seen, "the ranks meet over TCP at " + l.root + ", where anybody could join",
			"set WEFT_TOKEN to a secret that only the ranks know, or build with -tags mpi"}
	}
	p.route.tcp = []string{l.root}
	return nil
}

// connect makes a channel of a party whose route is known. A rank 0 listens
// there first, unless it does already.
func (p *party) connect(ctx context.Context, source string, session *mpiSession) (Channel, error) {
	if p.rank == 0 && len(p.lns) == 0 {
		if err := p.listenRoot(ctx); err != nil {
			return nil, err
		}
	}
	out, err := p.join(ctx)
	if err != nil {
		p.log.Debug("weft: connect", "error", err)
		return nil, err
	}
	p.log.Debug("weft: connected", "source", source, "rank", p.rank, "size", p.size)
	return newMesh(p.log, source, p.rank, out, session), nil
}

// listenRoot opens the listener that the environment has told the others of.
func (p *party) listenRoot(ctx context.Context) error {
	if p.route.unix != "" {
		ln, err := listenUnix(p.route.unix)
		if isAddrInUse(err) {
			return p.rival(ctx, err)
		}
		if err != nil {
			return joinError(err, ErrAddress, p.rank, p.rank)
		}
		p.lns = append(p.lns, ln)
		return nil
	}
	ln, err := net.Listen("tcp", listenAt(p.route.tcp[0]))
	if err != nil {
		return &JoinError{Err: ErrAddress, Rank: p.rank, Ranks: []int{p.rank},
			Detail: err.Error() + "; set WEFT_ROOT=host:port of rank 0 with a free port"}
	}
	p.lns = append(p.lns, ln)
	return nil
}

// listenAt turns the address that others know rank 0 by into one to listen at.
// A name may mean something else on its own host (Debian: 127.0.1.1), so only
// a literal address or localhost narrows the choice.
func listenAt(root string) string {
	host, port, _ := net.SplitHostPort(root)
	if isLoopback(root) || net.ParseIP(host) != nil {
		return root
	}
	return net.JoinHostPort("", port)
}

// rival asks the process that already listens in rank 0's place who it is:
// another user, or another rank 0, which then tells its ranks.
func (p *party) rival(ctx context.Context, inUse error) error {
	p.me = p.describe()
	ctx, cancel := context.WithTimeout(ctx, strangerTimeout)
	defer cancel()
	c, _, err := p.reach(ctx, 0, p.route.addresses(p.node), purposeJoin, p.key)
	if err == nil {
		defer c.Close()
		stop := c.abortWith(ctx)
		defer stop()
		_, err = c.expect(frameTable)
	}
	if e := joinError(err, ErrAddress, p.rank, p.rank); err != nil && e.Err != ErrMissing {
		return e
	}
	return joinError(inUse, ErrDuplicateRank, p.rank, p.rank)
}

func newParty(cfg Config, l launch) *party {
	p := &party{
		log: cfg.Logger, rank: l.rank, size: l.size, uid: os.Geteuid(), version: protocolVersion,
		key: []byte(l.token), node: nodeID(), refuse: cfg.refuse,
	}
	if v, _ := cfg.LookupEnv("WEFT_NODE"); v != "" { // splits a node, never joins two
		sum := sha256.Sum256([]byte(v))
		p.node += "/" + hex.EncodeToString(sum[:8])
	}
	return p
}

func (p *party) describe() member {
	return member{Rank: p.rank, Host: hostname(), Node: p.node, PID: os.Getpid(), CPUs: formatCPUs(affinity())}
}

// rootName is where rank 0 of a job waits for the others of its node. It is no
// secret: who connects is checked.
func rootName(uid int, job string, gen int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%d", uid, job, gen))
	return "weft-" + hex.EncodeToString(sum[:16])
}

func randomName() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return "weft-" + hex.EncodeToString(b)
}
