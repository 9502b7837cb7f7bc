package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// measurement is something that is measured of a target.
type measurement struct {
	name string
	once bool // not in each round: it takes long, and varies little
	only string
	run  func(*probe) error
}

func (m *measurement) fits(target string) bool { return strings.HasPrefix(target, m.only) }

var measures = []measurement{
	{name: "short", run: short},
	{name: "batched", run: batched},
	{name: "paced100", run: func(p *probe) error { return p.pacedStreams(100, 5*time.Millisecond) }},
	{name: "paced500", run: func(p *probe) error { return p.pacedStreams(500, 25*time.Millisecond) }},
	{name: "memory", once: true, run: memory},
	{name: "abort", once: true, run: abort},
	{name: "recovery", once: true, only: nameOff, run: recoveryGap},
	{name: "loops", once: true, only: nameOff, run: loops},
}

func measureNames() (names []string) {
	for _, m := range measures {
		names = append(names, m.name)
	}
	return names
}

// shortFrames is the length of a short answer, in events.
const shortFrames = 10

// warm has a target open its connections, and its runtime settle.
func (p *probe) warm(work func(each time.Duration) (load, error)) error {
	_, err := work(100 * time.Millisecond)
	return err
}

// short measures requests for short answers, from 16 clients.
func short(p *probe) error {
	work := func(each time.Duration) (load, error) {
		return closedLoop(p.port, 16, each, func(client, n int) plan {
			return plan{frames: shortFrames - extraFrames, batch: 1, id: int64(16*n + client)}
		})
	}
	if err := p.warm(work); err != nil {
		return err
	}
	var l load
	cpu, err := p.cpu(func() (err error) { l, err = work(p.each); return err })
	if err != nil {
		return err
	}
	if l.events != shortFrames*l.requests {
		return fmt.Errorf("got %d events of %d requests, want %d of each", l.events, l.requests, shortFrames)
	}
	p.add("short requests/s", float64(l.requests)/l.took.Seconds())
	if p.pid > 0 {
		p.add("CPU µs/request", float64(cpu.Microseconds())/float64(l.requests))
	}
	return nil
}

// batched measures streams that come as fast as they can, 16 events in a write.
func batched(p *probe) error {
	const frames = 20_000
	work := func(each time.Duration) (load, error) {
		return closedLoop(p.port, 4, each, func(client, n int) plan {
			return plan{frames: frames, batch: 16, id: int64(4*n + client)}
		})
	}
	if err := p.warm(work); err != nil {
		return err
	}
	var l load
	cpu, err := p.cpu(func() (err error) { l, err = work(p.each); return err })
	if err != nil {
		return err
	}
	if l.events != (frames+extraFrames)*l.requests {
		return fmt.Errorf("got %d events of %d requests, want %d of each", l.events, l.requests, frames+extraFrames)
	}
	p.add("batched frames/s", float64(l.events)/l.took.Seconds())
	if p.pid > 0 {
		p.add("CPU s per 1M batched frames", cpu.Seconds()*1e6/float64(l.events))
	}
	return nil
}

// pacedStreams measures streams as models send them.
func (p *probe) pacedStreams(clients int, pace time.Duration) error {
	work := func(each time.Duration) (load, error) { return paced(p.port, clients, max(each, 4*pace), pace) }
	if err := p.warm(work); err != nil {
		return err
	}
	var l load
	cpu, err := p.cpu(func() (err error) { l, err = work(p.each); return err })
	if err != nil {
		return err
	}
	suffix := fmt.Sprintf(", %d streams", clients)
	p.add("latency p50 µs"+suffix, micros(percentile(l.latency, 50)))
	p.add("latency p99 µs"+suffix, micros(percentile(l.latency, 99)))
	if p.pid > 0 {
		p.add("CPU s per 1M paced frames"+suffix, cpu.Seconds()*1e6/float64(l.events))
	}
	return nil
}

// memory measures what open streams take.
func memory(p *probe) error {
	if p.pid == 0 {
		return nil
	}
	for _, n := range p.streams {
		all, err := open(p.port, n, p.id(n))
		if err == nil {
			var used int64
			if used, err = residentBytes(p.pid); err == nil {
				p.add(fmt.Sprintf("RSS MB, %d streams", n), float64(used)/1e6)
			}
		}
		for _, c := range all {
			c.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// abort measures how long an upstream goes on for a client that has left.
func abort(p *probe) error {
	var all []time.Duration
	for range 50 {
		d, err := p.aborted(p.port, p.id(1))
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	p.add("upstream left after, ms p50", micros(percentile(all, 50))/1000)
	p.add("upstream left after, ms p99", micros(percentile(all, 99))/1000)
	return nil
}

// jitter is the longest wait of doomproxy between a cut and the next attempt.
const jitter = 250 * time.Millisecond

// recoveryGap measures what comes on top of the jitter: with that evenly spread,
// the median is half of it later than without.
func recoveryGap(p *probe) error {
	const cuts = 400
	all := make([]time.Duration, cuts)
	err := together(8, func(client int) error {
		for i := client; i < cuts; i += 8 {
			gap, err := cut(p.port, int64(i))
			if err != nil {
				return err
			}
			all[i] = gap
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.add("recovery gap, ms least", micros(percentile(all, 0))/1000)
	p.add("recovery gap, ms p50 without jitter", micros(percentile(all, 50)-jitter/2)/1000)
	return nil
}

// loops measures requests of which a share loops once. Clients that wait for a
// jitter leave the proxy to others, so there are many of them.
func loops(p *probe) error {
	for _, percent := range []int{0, 1, 10} {
		work := func(each time.Duration) (load, error) {
			return closedLoop(p.port, 200, each, func(client, n int) plan {
				return plan{frames: shortFrames - extraFrames, batch: 1, id: int64(200*n + client), loops: rand.IntN(100) < percent} // #nosec G404 -- a share
			})
		}
		if err := p.warm(work); err != nil {
			return err
		}
		var l load
		cpu, err := p.cpu(func() (err error) { l, err = work(p.each); return err })
		if err != nil {
			return err
		}
		p.add(fmt.Sprintf("requests/s, %d %% loop", percent), float64(l.requests)/l.took.Seconds())
		p.add(fmt.Sprintf("CPU µs/request, %d %% loop", percent), float64(cpu.Microseconds())/float64(l.requests))
	}
	return nil
}
