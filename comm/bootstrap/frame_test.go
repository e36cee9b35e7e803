package bootstrap

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrameRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 100, MaxData} {
		in := frame{typ: frameMessage, kind: 7, comm: 1 << 60, seq: 99, data: bytes.Repeat([]byte{3}, n)}
		if n == 0 {
			in.data = nil
		}
		b := in.encode()
		out, files, err := decodePacket(b)
		require.NoError(t, err)
		require.Zero(t, files)
		require.Equal(t, in, out)
		out, err = readFrame(bytes.NewReader(b))
		require.NoError(t, err)
		require.Equal(t, in, out)
	}
}

func TestFrameMalformed(t *testing.T) {
	good := (&frame{typ: frameMessage, data: []byte("abc")}).encode()
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	tests := map[string][]byte{
		"magic":           change(0, 'G'),
		"type zero":       change(1, 0),
		"type unknown":    change(1, byte(frameEnd)),
		"oversize":        change(4, 1),
		"too many files":  change(3, MaxFiles+1),
		"files elsewhere": (&frame{typ: frameHello}).encode(),
		"short":           good[:10],
	}
	tests["files elsewhere"][3] = 1
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := decodePacket(b)
			require.ErrorIs(t, err, ErrProtocol)
			_, err = readFrame(bytes.NewReader(b))
			require.Error(t, err)
		})
	}
	_, _, err := decodePacket(append(good, 0))
	require.ErrorIs(t, err, ErrProtocol)
	_, err = readFrame(bytes.NewReader(good[:len(good)-1]))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = readFrame(bytes.NewReader(nil))
	require.Equal(t, io.EOF, err)
}

func FuzzFrame(f *testing.F) {
	f.Add((&frame{typ: frameMessage, kind: 1, comm: 2, seq: 3, data: []byte("data")}).encode())
	f.Add((&frame{typ: frameGoodbye}).encode())
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, files, err := decodePacket(b)
		if err == nil && files == 0 {
			require.Equal(t, b, fr.encode())
		}
		r := bytes.NewReader(b)
		for {
			fr, err := readFrame(r)
			if err != nil {
				break
			}
			require.LessOrEqual(t, len(fr.data), MaxData)
		}
	})
}

func FuzzHello(f *testing.F) {
	key, challenge := []byte("key"), newNonce()
	h := &hello{Version: 1, Size: 4, Nonce: newNonce(), member: member{Rank: 2, Host: "h", CPUs: "0-3,8", TCP: []string{"127.0.0.1:1"}}}
	good, err := encodeHello(h, key, challenge)
	require.NoError(f, err)
	f.Add(good[macLen:])
	f.Add([]byte(`{"size":1e9,"rank":-4}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := decodeHello(body, key, challenge)
		require.Error(t, err, "no valid MAC")
		h, err := decodeHello(append(prove(key, "hello", challenge, body), body...), key, challenge)
		if err == nil {
			require.NoError(t, h.check())
			require.LessOrEqual(t, len(h.peer().CPUs), maxCPUs)
		}
		if tab, err := decodeTable(body, 2); err == nil {
			require.Len(t, tab.Members, 2)
		}
		require.Error(t, decodeRefusal(body))
	})
}

func TestCPUList(t *testing.T) {
	for want, cpus := range map[string][]int{
		"": nil, "0": {0}, "0-3,8": {0, 1, 2, 3, 8}, "1,3,5-6": {1, 3, 5, 6},
	} {
		require.Equal(t, want, formatCPUs(cpus))
		got, err := parseCPUs(want)
		require.NoError(t, err)
		require.Equal(t, cpus, got)
	}
	for _, bad := range []string{",", "x", "3-1", "1,1", "0-4000000000", "-1", "5,2"} {
		_, err := parseCPUs(bad)
		require.ErrorIs(t, err, ErrProtocol, bad)
	}
}
