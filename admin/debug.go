package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/doomproxy/doomproxy/proxy"
)

// maxBody bounds what is read of a request's body, in bytes. The longest that
// makes sense has some 25.
const maxBody = 4 << 10

// debug shows a proxy's state and changes it.
type debug struct {
	state  *proxy.State
	mode   func(proxy.Guard) proxy.Mode
	onMode func(proxy.Guard, proxy.Mode)
	log    *slog.Logger
}

// snapshot is the answer to /debug/requests.
type snapshot struct {
	Now time.Time `json:"now"`
	// The first three are the mode of the recovery, which is also the first of
	// Modes.
	Mode       proxy.Mode       `json:"mode"`
	Configured proxy.Mode       `json:"mode_configured"`
	Switched   bool             `json:"mode_switched"`
	Modes      []guardMode      `json:"modes"`
	Running    []proxy.Running  `json:"running"`    // the oldest first
	Recoveries []proxy.Recovery `json:"recoveries"` // the newest first
}

// guardMode is the mode of a guard for new requests. It is Configured unless it was
// Switched.
type guardMode struct {
	Guard      proxy.Guard `json:"guard"`
	Mode       proxy.Mode  `json:"mode"`
	Configured proxy.Mode  `json:"configured"`
	Switched   bool        `json:"switched"`
}

// modes returns those of all guards.
func (d *debug) modes() (list []guardMode) {
	for _, g := range proxy.Guards() {
		m := guardMode{Guard: g, Mode: d.state.Mode(g), Configured: proxy.ModeEnforce}
		if d.mode != nil {
			m.Configured = d.mode(g)
		}
		if m.Switched = m.Mode != ""; !m.Switched {
			m.Mode = m.Configured
		}
		list = append(list, m)
	}
	return list
}

func (d *debug) requests(w http.ResponseWriter, _ *http.Request) {
	snap := snapshot{
		Now:        time.Now(),
		Modes:      d.modes(),
		Running:    d.state.Running(),
		Recoveries: d.state.Recoveries(),
	}
	first := snap.Modes[0]
	snap.Mode, snap.Configured, snap.Switched = first.Mode, first.Configured, first.Switched
	if snap.Recoveries == nil {
		snap.Recoveries = []proxy.Recovery{} // null is no list to a client
	}
	writeJSON(w, http.StatusOK, &snap)
}

func (d *debug) cancel(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if !d.state.Cancel(id) {
		refuse(w, r, http.StatusNotFound, "not_running", "no request with that id is running; it may have ended")
		return
	}
	d.log.Info("a request was cancelled by an operator", "id", id, "from", r.RemoteAddr)
	w.WriteHeader(http.StatusNoContent)
}

func (d *debug) setMode(w http.ResponseWriter, r *http.Request) {
	modes, err := readModes(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, r, http.StatusBadRequest, "invalid_mode",
			err.Error()+`; want an object such as {"recovery":"enforce"}, with recovery, detector and stationarity as keys, each "enforce", "observe" or "off", or "" for the configured mode`)
		return
	}
	for _, g := range proxy.Guards() { // in an order of their own
		mode, ok := modes[g]
		if !ok {
			continue
		}
		d.state.SetMode(g, mode)
		if d.onMode != nil {
			d.onMode(g, mode)
		}
		if mode == "" {
			d.log.Info("the mode is the configured one again", "guard", string(g), "from", r.RemoteAddr)
		} else {
			d.log.Info("the mode was switched by an operator", "guard", string(g), "mode", string(mode), "from", r.RemoteAddr)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// The ways in which a body names no mode.
var (
	errNoMode = errors.New("the body names no mode")
	errBody   = errors.New("the body is not as it should be")
)

// readModes reads the body of a request for other modes.
func readModes(body io.Reader) (map[proxy.Guard]proxy.Mode, error) {
	var in map[proxy.Guard]*proxy.Mode
	dec := json.NewDecoder(body)
	if err := dec.Decode(&in); err != nil {
		return nil, errBody // its own text would quote what was sent
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errBody
	}
	modes := make(map[proxy.Guard]proxy.Mode)
	for g, m := range in {
		if !slices.Contains(proxy.Guards(), g) {
			return nil, fmt.Errorf("there is no %.20q", string(g))
		}
		if m == nil {
			return nil, errNoMode
		}
		switch *m {
		case proxy.ModeEnforce, proxy.ModeObserve, proxy.ModeOff, "":
			modes[g] = *m
		default:
			return nil, fmt.Errorf("%s: %.20q is not allowed", g, string(*m))
		}
	}
	if len(modes) == 0 {
		return nil, errNoMode
	}
	return modes, nil
}
