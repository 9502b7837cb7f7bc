package simulate

import (
	"strings"
	"testing"
)

func TestRecordsKeep(t *testing.T) {
	tests := []struct {
		name string
		keep int
		want []int // ordinals of 5 requests that are remembered
	}{
		{"default", 0, []int{0, 1, 2, 3, 4}},
		{"newest", 2, []int{3, 4}},
		{"none", -1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var latest *Request
			s := &Server{Keep: tt.keep, Script: func(_ int, req *Request) Scenario {
				latest = req // one request at a time
				return Scenario{}
			}}
			srv := start(t, s)
			for range 5 {
				readAll(t, post(t.Context(), t, srv, streamBody, nil).Body)
			}
			checkOrdinals(t, s, tt.want)
			if got := len(latest.Reply()) > 0; got != (tt.want != nil) {
				t.Errorf("the last request holds its reply: %v", got)
			}
			if n, _ := latest.Sent(); n == 0 {
				t.Error("writes are not counted")
			}
		})
	}
}

func checkOrdinals(t *testing.T, s *Server, want []int) {
	t.Helper()
	var got []int
	for _, req := range s.Requests() {
		got = append(got, req.Ordinal)
	}
	if len(got) != len(want) {
		t.Fatalf("remembered are %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("remembered are %v, want %v", got, want)
		}
	}
}

func TestRecordsKeepBytes(t *testing.T) {
	const limit = 10_000
	var all []*Request
	s := &Server{KeepBytes: limit, Script: func(_ int, req *Request) Scenario {
		all = append(all, req) // one request at a time
		return Scenario{Frames: []string{strings.Repeat("r", 2000), strings.Repeat("s", 2000)}}
	}}
	srv := start(t, s)
	for range 5 {
		readAll(t, post(t.Context(), t, srv, streamBody, nil).Body)
	}
	checkOrdinals(t, s, []int{3, 4})
	if got := len(all[0].Reply()); got != 0 {
		t.Errorf("a forgotten request holds %d bytes of reply", got)
	}
	if _, got := all[0].Sent(); got != 4000 {
		t.Errorf("a forgotten request has sent %d bytes, want 4000", got)
	}
	if got := len(all[4].Reply()); got != 4000 {
		t.Errorf("the newest request holds %d bytes of reply, want 4000", got)
	}

	held := int64(0)
	for _, req := range s.Requests() {
		held += req.size + int64(len(req.Reply()))
	}
	if got := s.records.held; got != held || got > limit {
		t.Errorf("%d bytes are held, counted %d, limit %d", held, got, limit)
	}
}

// One reply larger than the bound is kept up to it.
func TestRecordsLargeReply(t *testing.T) {
	s := &Server{KeepBytes: 5000, Script: func(int, *Request) Scenario {
		return Scenario{Frames: []string{strings.Repeat("r", 3000), strings.Repeat("s", 3000), "t"}}
	}}
	srv := start(t, s)
	if got := len(readAll(t, post(t.Context(), t, srv, streamBody, nil).Body)); got != 6001 {
		t.Errorf("client got %d bytes, want 6001", got)
	}
	req := s.Requests()[0]
	if got := string(req.Reply()); got != strings.Repeat("r", 3000) {
		t.Errorf("Reply has %d bytes, want the first 3000", len(got))
	}
	if writes, n := req.Sent(); writes != 3 || n != 6001 {
		t.Errorf("Sent = %d writes, %d bytes, want 3, 6001", writes, n)
	}
}
