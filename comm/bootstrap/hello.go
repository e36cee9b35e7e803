package bootstrap

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

const (
	protocolVersion = 1
	maxRanks        = 1 << 20 // more is a mistake
	maxCPUs         = 1 << 12
	maxAddrs        = 16
	nonceLen        = 32
	macLen          = sha256.Size
)

// A member is one rank's entry in the table that all ranks get.
type member struct {
	Rank int      `json:"rank"`
	Host string   `json:"host"`
	Node string   `json:"node"`
	PID  int      `json:"pid"`
	CPUs string   `json:"cpus,omitempty"` // "0-3,8"
	Unix string   `json:"unix,omitempty"` // abstract name at which it takes ranks of its node
	TCP  []string `json:"tcp,omitempty"`  // host:port at which it takes others; tried in turn
}

// A hello says who dials and to whom. It follows a challenge, and its frame
// begins with a MAC over the challenge's nonce and the hello.
type hello struct {
	Version int    `json:"version"`
	Size    int    `json:"size"`
	To      int    `json:"to"`
	Gen     int    `json:"gen"`  // how many times the dialer has connected before
	Wait    int64  `json:"wait"` // milliseconds for which the dialer will still wait
	Nonce   []byte `json:"nonce"`
	Refuse  string `json:"refuse,omitempty"` // why the dialer can't take part
	member
}

// A table is what rank 0 sends to everyone when all have come.
type table struct {
	Session []byte   `json:"session"` // random; with the token it makes the key of the mesh
	Members []member `json:"members"` // by rank
}

// A purpose is the kind of a hello frame and decides which key proves it.
type purpose uint8

const (
	purposeJoin purpose = iota + 1 // to rank 0, proved with the job's token
	purposeMesh                    // to any rank, proved with the key of the mesh
)

// newNonce returns random bytes that no two connections share.
func newNonce() []byte {
	b := make([]byte, nonceLen)
	rand.Read(b) // never fails
	return b
}

// prove returns the MAC that shows knowledge of key.
func prove(key []byte, role string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("weft " + role + "\x00"))
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// encodeHello returns the data of a hello frame.
func encodeHello(h *hello, key, challenge []byte) ([]byte, error) {
	body, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return append(prove(key, "hello", challenge, body), body...), nil
}

// decodeHello checks the MAC, in constant time, before it looks at the rest.
func decodeHello(data, key, challenge []byte) (*hello, error) {
	if len(data) < macLen {
		return nil, fmt.Errorf("%w: hello of %d bytes", ErrProtocol, len(data))
	}
	if !hmac.Equal(data[:macLen], prove(key, "hello", challenge, data[macLen:])) {
		return nil, ErrToken
	}
	h := new(hello)
	if err := json.Unmarshal(data[macLen:], h); err != nil {
		return nil, fmt.Errorf("%w: hello: %v", ErrProtocol, err)
	}
	if h.Rank < 0 || h.Size < 1 || h.Size > maxRanks || len(h.Nonce) != nonceLen {
		return nil, fmt.Errorf("%w: hello: rank %d, size %d", ErrProtocol, h.Rank, h.Size)
	}
	if len(h.Refuse) > maxReason {
		return nil, fmt.Errorf("%w: hello: a reason of %d bytes", ErrProtocol, len(h.Refuse))
	}
	return h, h.check()
}

// check bounds what a member says of itself.
func (m *member) check() error {
	if len(m.Host) > 255 || len(m.Node) > 255 || len(m.CPUs) > 4096 || len(m.Unix) > 100 || len(m.TCP) > maxAddrs {
		return fmt.Errorf("%w: rank %d describes itself at too great length", ErrProtocol, m.Rank)
	}
	for _, addr := range m.TCP {
		if _, _, err := net.SplitHostPort(addr); err != nil || len(addr) > 255 {
			return fmt.Errorf("%w: rank %d gives address %.255q", ErrProtocol, m.Rank, addr)
		}
	}
	_, err := parseCPUs(m.CPUs)
	return err
}

// decodeTable reads a table for size ranks.
func decodeTable(data []byte, size int) (*table, error) {
	t := new(table)
	if err := json.Unmarshal(data, t); err != nil {
		return nil, fmt.Errorf("%w: table: %v", ErrProtocol, err)
	}
	if len(t.Members) != size {
		return nil, fmt.Errorf("%w: table of %d ranks, not %d", ErrProtocol, len(t.Members), size)
	}
	for i := range t.Members {
		if t.Members[i].Rank != i {
			return nil, fmt.Errorf("%w: table has rank %d in place %d", ErrProtocol, t.Members[i].Rank, i)
		}
		if err := t.Members[i].check(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// peer shows a member to the user of a channel.
func (m *member) peer() Peer {
	cpus, _ := parseCPUs(m.CPUs) // checked before
	return Peer{Rank: m.Rank, Host: m.Host, Node: m.Node, PID: m.PID, CPUs: cpus}
}

// A refusal is a JoinError on the wire.
type refusal struct {
	Cause  string `json:"cause"`
	Rank   int    `json:"rank"`
	Ranks  []int  `json:"ranks,omitempty"`
	Detail string `json:"detail,omitempty"`
}

func encodeRefusal(e *JoinError) []byte {
	r := refusal{causeName(e.Err), e.Rank, e.Ranks, e.Detail}
	if len(r.Ranks) > 1024 {
		r.Ranks = r.Ranks[:1024]
	}
	if len(r.Detail) > 1024 {
		r.Detail = r.Detail[:1024]
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	return b
}

// decodeRefusal returns a *JoinError, whatever the data.
func decodeRefusal(data []byte) error {
	var r refusal
	if err := json.Unmarshal(data, &r); err != nil {
		return &JoinError{Err: ErrProtocol, Detail: "unreadable refusal"}
	}
	cause := causes[r.Cause]
	if cause == nil {
		cause = ErrProtocol
	}
	return &JoinError{Err: cause, Rank: r.Rank, Ranks: r.Ranks, Detail: r.Detail}
}

// joinError makes err a JoinError, if it isn't one. cause is the cause unless
// err tells a better one.
func joinError(err, cause error, rank int, ranks ...int) *JoinError {
	var e *JoinError
	if errors.As(err, &e) {
		return e
	}
	if name := causeName(err); name != "" {
		cause = causes[name]
	}
	e = &JoinError{Err: cause, Rank: rank, Ranks: ranks}
	if err != cause {
		e.Detail = strings.TrimPrefix(err.Error(), cause.Error()+": ")
	}
	return e
}

// formatCPUs writes a sorted list of CPUs as "0-3,8".
func formatCPUs(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(cpus[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", cpus[i], cpus[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// parseCPUs reads what formatCPUs writes.
func parseCPUs(s string) ([]int, error) {
	if s == "" {
		return nil, nil
	}
	var cpus []int
	last := -1
	for part := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(part, "-")
		lo, err := strconv.Atoi(from)
		hi := lo
		if err == nil && ok {
			hi, err = strconv.Atoi(to)
		}
		if err != nil || lo <= last || hi < lo || hi >= maxCPUs {
			return nil, fmt.Errorf("%w: CPU list %.64q", ErrProtocol, s)
		}
		for c := lo; c <= hi; c++ {
			cpus = append(cpus, c)
		}
		last = hi
	}
	return cpus, nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
