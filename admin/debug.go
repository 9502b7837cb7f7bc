package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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
	mode   func() proxy.Mode
	onMode func(proxy.Mode)
	log    *slog.Logger
}

// snapshot is the answer to /debug/requests.
type snapshot struct {
	Now time.Time `json:"now"`
	// Mode holds for new requests. It is Configured unless it was Switched.
	Mode       proxy.Mode       `json:"mode"`
	Configured proxy.Mode       `json:"mode_configured"`
	Switched   bool             `json:"mode_switched"`
	Running    []proxy.Running  `json:"running"`    // the oldest first
	Recoveries []proxy.Recovery `json:"recoveries"` // the newest first
}

func (d *debug) requests(w http.ResponseWriter, _ *http.Request) {
	snap := snapshot{
		Now:        time.Now(),
		Mode:       d.state.Mode(proxy.GuardRecovery),
		Configured: proxy.ModeEnforce,
		Running:    d.state.Running(),
		Recoveries: d.state.Recoveries(),
	}
	if d.mode != nil {
		snap.Configured = d.mode()
	}
	if snap.Mode == "" {
		snap.Mode = snap.Configured
	} else {
		snap.Switched = true
	}
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
	mode, err := readMode(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, r, http.StatusBadRequest, "invalid_mode",
			err.Error()+`; want {"recovery":"enforce"}, "observe" or "off", or "" for the configured mode`)
		return
	}
	d.state.SetMode(proxy.GuardRecovery, mode)
	if d.onMode != nil {
		d.onMode(mode)
	}
	if mode == "" {
		d.log.Info("the mode is the configured one again", "from", r.RemoteAddr)
	} else {
		d.log.Info("the mode was switched by an operator", "mode", string(mode), "from", r.RemoteAddr)
	}
	w.WriteHeader(http.StatusNoContent)
}

// The ways in which a body names no mode.
var (
	errNoMode = errors.New("the body names no mode")
	errBody   = errors.New("the body is not as it should be")
)

// readMode reads the body of a request for another mode.
func readMode(body io.Reader) (proxy.Mode, error) {
	var in struct {
		Recovery *proxy.Mode `json:"recovery"`
	}
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return "", errBody // its own text would quote what was sent
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", errBody
	}
	if in.Recovery == nil {
		return "", errNoMode
	}
	switch *in.Recovery {
	case proxy.ModeEnforce, proxy.ModeObserve, proxy.ModeOff, "":
		return *in.Recovery, nil
	}
	return "", fmt.Errorf("recovery: %.20q is not allowed", string(*in.Recovery))
}
