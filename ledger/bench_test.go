package ledger_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/doomproxy/doomproxy/ledger"
)

// benchmarkStores runs fn with each store, filled.
func benchmarkStores(b *testing.B, fn func(*testing.B, ledger.Store)) {
	const entries = 100_000
	opt := ledger.Options{RedisTimeout: patient}
	for name, open := range map[string]func(b *testing.B) ledger.Store{
		"memory": func(*testing.B) ledger.Store { return ledger.NewMemory(opt) },
		"file": func(b *testing.B) ledger.Store {
			return openFile(b, filepath.Join(b.TempDir(), "ledger.db"), opt)
		},
		"redis": func(b *testing.B) ledger.Store { return openRedis(b, newServer(b).url(0), opt) },
	} {
		b.Run(name, func(b *testing.B) {
			s := open(b)
			for n := 0; n < entries; n += 10_000 {
				set(b, s, marks(items(n, n+10_000)...))
			}
			b.ReportAllocs()
			fn(b, s)
			closeStore(b, s)
		})
	}
}

// What a request asks for that holds 40 items, none of which is known.
func BenchmarkGetMiss(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, s ledger.Store) {
		keys := items(-40, 0)
		for b.Loop() {
			wantFound(b, s, keys, nil)
		}
	})
}

// And one where all are.
func BenchmarkGet(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, s ledger.Store) {
		keys := items(0, 40)
		want := marks(keys...)
		for b.Loop() {
			wantFound(b, s, keys, want)
		}
	})
}

// What a discarded attempt leaves.
func BenchmarkSet(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, s ledger.Store) {
		n := 1_000_000
		for b.Loop() {
			set(b, s, marks(items(n, n+10)...))
			n += 10
		}
	})
}

// What many discarded attempts leave at once.
func BenchmarkSetParallel(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, s ledger.Store) {
		var callers atomic.Int64
		b.SetParallelism(32)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for n := int(callers.Add(1)) * 1_000_000; pb.Next(); n += 10 {
				set(b, s, marks(items(n, n+10)...))
			}
		})
	})
}

// What an accepted attempt costs that forwards nothing known.
func BenchmarkDeleteMiss(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, s ledger.Store) {
		keys := items(-10, 0)
		for b.Loop() {
			if err := s.Delete(b.Context(), keys); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkText(b *testing.B) {
	text := strings.Repeat(words, 100)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		ledger.Text(text)
	}
}

func BenchmarkSealed(b *testing.B) {
	text := strings.Repeat("x", 10<<10)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		ledger.Sealed(text)
	}
}

// The start of a process whose ledger is full.
func BenchmarkOpenFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "ledger.db")
	f := openFile(b, path, ledger.Options{})
	for n := 0; n < ledger.DefaultMaxEntries; n += 10_000 {
		set(b, f, marks(items(n, n+10_000)...))
	}
	closeStore(b, f)
	for b.Loop() {
		closeStore(b, openFile(b, path, ledger.Options{}))
	}
}
