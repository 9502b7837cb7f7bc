package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// measurement is something that is measured of a target.
type measurement struct {
	name string
	most int    // rounds in which it is made: it takes long, or varies little; 0: all
	only string // what the names of targets begin with that can do this; "": all
	run  func(context.Context, *probe) error
}

func (o *options) measures() []measurement {
	all := []measurement{
		{name: "short", run: short},
		{name: "batched", run: batched},
		{name: "paced100", run: paced(100)},
		{name: "paced500", run: paced(500)},
		{name: "memory1000", run: memory(o.streams[0])},
		{name: "abort", most: 3, run: abort},
		{name: "recovery", most: 3, only: nameOff, run: recoveryGap},
		{name: "loops", most: 3, only: nameOff, run: loops},
	}
	if len(o.streams) > 1 {
		all = append(all,
			measurement{name: "paced10000", most: 3, run: paced(o.streams[1])},
			measurement{name: "memory10000", most: 3, run: memory(o.streams[1])})
	}
	return all
}

func measureNames() (names []string) {
	for _, m := range (&options{streams: []int{1000, 10000}}).measures() {
		names = append(names, m.name)
	}
	return names
}

// The rows of the tables. Those with a verb are for a number of streams, or percent.
const (
	rowShort      = "short requests/s"
	rowShortCPU   = "CPU µs/short request"
	rowBatched    = "batched frames/s"
	rowBatchedCPU = "CPU s/1M batched frames"
	rowP50        = "latency p50 µs, %d streams"
	rowP99        = "latency p99 µs, %d streams"
	rowPacedCPU   = "CPU s/1M paced frames, %d streams"
	rowMemory     = "RSS MB, %d streams"
	rowLeft50     = "upstream closed after abort, ms p50"
	rowLeft99     = "upstream closed after abort, ms p99"
	rowGapLeast   = "cut to next attempt, ms least"
	rowGap50      = "cut to next attempt, ms p50"
	rowLoops      = "requests/s, %d %% loop"
	rowLoopsCPU   = "CPU µs/request, %d %% loop"
)

// warmUp is how long a target gets to open its connections, and its runtime to
// settle.
const warmUp = 100 * time.Millisecond

// short measures requests for short answers, from 16 clients: 10 events, about 215
// bytes each.
func short(ctx context.Context, p *probe) error {
	const events, clients = 10, 16
	next := func(client, n int) plan {
		return plan{deltas: events - aroundDeltas, batch: 1, id: int64(clients*n + client)}
	}
	if _, err := p.closedLoop(ctx, clients, warmUp, next); err != nil {
		return err
	}
	l, err := p.closedLoop(ctx, clients, p.each, next)
	if err != nil {
		return err
	}
	if l.events != events*l.requests {
		return fmt.Errorf("got %d events of %d requests, want %d of each", l.events, l.requests, events)
	}
	p.add(rowShort, float64(l.requestsInTime)/p.each.Seconds())
	p.addCPU(rowShortCPU, l.cpu, time.Microsecond, l.requests)
	return nil
}

// batched measures streams that come as fast as they can, 16 deltas in a write.
func batched(ctx context.Context, p *probe) error {
	// Enough that a request counts for nothing, and few enough that no text returns
	// more than three times, which a detector would heed.
	const deltas, clients = 20_000, 4
	next := func(client, n int) plan {
		return plan{deltas: deltas, batch: 16, id: int64(clients*n + client)}
	}
	if _, err := p.closedLoop(ctx, clients, warmUp, next); err != nil {
		return err
	}
	l, err := p.closedLoop(ctx, clients, p.each, next)
	if err != nil {
		return err
	}
	if l.events != (deltas+aroundDeltas)*l.requests {
		return fmt.Errorf("got %d events of %d requests, want %d of each", l.events, l.requests, deltas+aroundDeltas)
	}
	p.add(rowBatched, float64(l.eventsInTime)/p.each.Seconds())
	p.addCPU(rowBatchedCPU, l.cpu, time.Microsecond, l.events)
	return nil
}

// pacedFrames is how many frames a second all paced streams together have: what 100
// streams have at one in 5 ms. More streams are slower ones. 500 at that pace would
// keep any target busy all the time, and tell how long its queue is.
const pacedFrames = 20_000

// paced measures streams as models send them: their latency, and CPU time without
// that of their beginning.
func paced(streams int) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		pace := time.Second * time.Duration(streams) / pacedFrames
		l, err := p.steady(ctx, streams, plan{batch: 1, pace: pace}, max(warmUp, pace), max(p.each, 2*pace))
		if err != nil {
			return err
		}
		if l.events == 0 {
			return errors.New("no frame came")
		}
		p.add(fmt.Sprintf(rowP50, streams), micros(percentile(l.latency, 50)))
		p.add(fmt.Sprintf(rowP99, streams), micros(percentile(l.latency, 99)))
		p.addCPU(fmt.Sprintf(rowPacedCPU, streams), l.cpu, time.Microsecond, l.events)
		return nil
	}
}

// memory measures what a process takes when so many streams are open.
func memory(streams int) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		if p.pid == 0 {
			return nil
		}
		all, err := p.open(ctx, streams, plan{batch: 1, silent: true})
		if err != nil {
			return err
		}
		defer closeAll(all)
		used, err := residentBytes(p.pid)
		if errors.Is(err, errors.ErrUnsupported) {
			p.results.Notes["RSS"] = err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		p.add(fmt.Sprintf(rowMemory, streams), float64(used)/1e6)
		return nil
	}
}

// abort measures how long an upstream goes on for a client that has left.
func abort(ctx context.Context, p *probe) error {
	const times = 100
	var all []time.Duration
	for range times {
		d, err := p.leave(ctx)
		if err != nil {
			return err
		}
		all = append(all, d)
		if d == leaveLimit {
			p.results.Notes["more than 2000 ms until "+p.name+" leaves the upstream"] = "no longer was waited"
			break
		}
	}
	p.add(rowLeft50, micros(percentile(all, 50))/1000)
	p.add(rowLeft99, micros(percentile(all, 99))/1000)
	return nil
}

// recoveryGap measures what a cut costs the client. doomproxy waits for a time
// between 0 and 250 ms, evenly spread, which is no setting: of so many waits the
// least is below 1 ms, so that the least gap is what comes on top.
func recoveryGap(ctx context.Context, p *probe) error {
	const cuts, clients = 400, 32
	all := make([]time.Duration, cuts)
	err := together(clients, func(client int) error {
		for i := client; i < cuts; i += clients {
			gap, err := p.cut(ctx, int64(i))
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
	p.add(rowGapLeast, micros(percentile(all, 0))/1000)
	p.add(rowGap50, micros(percentile(all, 50))/1000)
	return nil
}

// loops measures short requests of which a share loops once. Clients wait for the
// next attempt, so there have to be many to keep the proxy busy.
func loops(ctx context.Context, p *probe) error {
	const clients = 200
	for _, percent := range []int{0, 1, 10} {
		next := func(client, n int) plan {
			id := int64(clients*n + client)
			return plan{deltas: 4, batch: 1, id: id, loops: int(id*7919%100) < percent}
		}
		// The first loops have ended by then.
		if _, err := p.closedLoop(ctx, clients, 3*warmUp, next); err != nil {
			return err
		}
		l, err := p.closedLoop(ctx, clients, p.each, next)
		if err != nil {
			return err
		}
		p.add(fmt.Sprintf(rowLoops, percent), float64(l.requestsInTime)/p.each.Seconds())
		p.addCPU(fmt.Sprintf(rowLoopsCPU, percent), l.cpu, time.Microsecond, l.requests)
	}
	return nil
}
