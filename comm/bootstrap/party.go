package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"
)

// A route says where rank 0 waits for the others.
type route struct {
	unix string   // abstract name; "" when it doesn't listen there
	node string   // node on which that name is valid; "" when all ranks are on one
	tcp  []string // host:port, tried in turn; none when all ranks are on one node
}

// A party is one rank on its way into a job.
type party struct {
	log     *slog.Logger
	rank    int
	size    int
	gen     int
	uid     int
	version int
	key     []byte // the job's token
	node    string
	route   route
	lns     []net.Listener // rank 0: where route says, and for the mesh
	me      member
	refuse  string // why this rank can't take part; "": it can
}

// outcome is what the ranks have when they have come together.
type outcome struct {
	members []member
	links   []*conn // by rank, nil for the own
}

func (o *outcome) close() {
	for _, c := range o.links {
		if c != nil {
			c.Close()
		}
	}
}

// join brings all ranks together: lead on rank 0, follow on the others.
func (p *party) join(ctx context.Context) (*outcome, error) {
	if err := p.listen(); err != nil {
		p.closeListeners()
		return nil, err
	}
	if p.rank == 0 {
		return p.lead(ctx)
	}
	return p.follow(ctx)
}

func (p *party) closeListeners() {
	for _, ln := range p.lns {
		ln.Close()
	}
}

// listen opens the listeners of the mesh and describes this rank.
func (p *party) listen() error {
	p.me = p.describe()
	name := randomName()
	ln, err := listenUnix(name)
	if err != nil {
		return joinError(err, ErrAddress, p.rank, p.rank)
	}
	p.lns, p.me.Unix = append(p.lns, ln), name
	if len(p.route.tcp) == 0 {
		return nil
	}
	if p.rank == 0 { // the listener that the others know serves the mesh too
		p.me.TCP = p.route.tcp
		return nil
	}
	at := ":0"
	if allLoopback(p.route.tcp) {
		at = "127.0.0.1:0"
	}
	if ln, err = net.Listen("tcp", at); err != nil {
		return joinError(err, ErrAddress, p.rank, p.rank)
	}
	p.lns, p.me.TCP = append(p.lns, ln), advertised(ln)
	return nil
}

// hello introduces this rank to another.
func (p *party) hello(ctx context.Context, to int) *hello {
	h := &hello{Version: p.version, Size: p.size, To: to, Gen: p.gen, Nonce: newNonce(), Refuse: p.refuse, member: p.me}
	if d, ok := ctx.Deadline(); ok {
		h.Wait = max(time.Until(d).Milliseconds(), 1)
	}
	return h
}

// reach dials the addresses in turn, again and again until ctx ends. It
// returns the address that worked.
func (p *party) reach(ctx context.Context, to int, addrs []address, what purpose, key []byte) (*conn, address, error) {
	if len(addrs) == 0 {
		return nil, address{}, &JoinError{Err: ErrAddress, Rank: p.rank, Ranks: []int{to},
			Detail: "it is on another node, and nobody said where to reach it by TCP; set WEFT_ROOT=host:port of rank 0"}
	}
	var last error
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		for _, addr := range addrs {
			c, err := call(ctx, addr, p, what, key, func(c *conn) (*hello, error) {
				h := p.hello(ctx, to)
				h.TCP = preferred(h.TCP, c.LocalAddr())
				return h, nil
			})
			if err == nil {
				return c, addr, nil
			}
			if ctx.Err() != nil {
				break
			}
			last = fmt.Errorf("%s: %w", addr, err)
			// With several addresses, a wrong answer may come from another
			// host that has the same private address.
			if retry := new(errRetry); !errors.As(err, retry) && len(addrs) == 1 {
				return nil, addr, joinError(err, ErrAddress, p.rank, to)
			}
		}
		select {
		case <-ctx.Done():
			return nil, address{}, p.ended(ctx, last, to)
		case <-time.After(pause):
		}
	}
}

// ended tells why ctx has ended: with the cause it was given, because time is
// up, or because the caller gave up.
func (p *party) ended(ctx context.Context, last error, ranks ...int) *JoinError {
	cause := context.Cause(ctx)
	e := &JoinError{Err: ErrCanceled, Rank: p.rank, Ranks: []int{p.rank}}
	if errors.As(cause, &e) {
		return e
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		e.Err, e.Ranks = ErrMissing, ranks
	}
	if last != nil {
		e.Detail = "last attempt: " + last.Error()
	} else if !errors.Is(cause, ctx.Err()) {
		e.Detail = cause.Error()
	}
	return e
}

// addresses lists how to reach a member.
func (p *party) addresses(m *member) []address {
	if m.Node == p.node {
		return []address{{"unix", m.Unix}}
	}
	return tcpAddresses(m.TCP)
}

func (r route) addresses(node string) []address {
	if r.unix != "" && (r.node == "" || r.node == node) {
		return []address{{"unix", r.unix}}
	}
	return tcpAddresses(r.tcp)
}

func tcpAddresses(names []string) []address {
	addrs := make([]address, len(names))
	for i, name := range names {
		addrs[i] = address{"tcp", name}
	}
	return addrs
}

// advertised lists the addresses at which others may reach a TCP listener: its
// own, or one per interface address when it listens on all.
func advertised(ln net.Listener) []string {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	port := strconv.Itoa(tcp.Port)
	if !tcp.IP.IsUnspecified() {
		return []string{net.JoinHostPort(tcp.IP.String(), port)}
	}
	var hosts, loopback []string
	ifAddrs, _ := net.InterfaceAddrs()
	for _, a := range ifAddrs {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLinkLocalUnicast() {
			continue
		}
		if ip.IP.IsLoopback() {
			loopback = append(loopback, net.JoinHostPort(ip.IP.String(), port))
		} else {
			hosts = append(hosts, net.JoinHostPort(ip.IP.String(), port))
		}
	}
	if len(hosts) == 0 {
		hosts = loopback
	}
	return hosts[:min(len(hosts), maxAddrs)]
}

// preferred moves the address of the interface that a connection used to the front.
func preferred(addrs []string, local net.Addr) []string {
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return addrs
	}
	i := slices.IndexFunc(addrs, func(a string) bool {
		host, _, _ := net.SplitHostPort(a)
		return tcp.IP.Equal(net.ParseIP(host))
	})
	if i <= 0 {
		return addrs
	}
	return append([]string{addrs[i]}, slices.Delete(slices.Clone(addrs), i, i+1)...)
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func allLoopback(addrs []string) bool {
	return !slices.ContainsFunc(addrs, func(a string) bool { return !isLoopback(a) })
}
