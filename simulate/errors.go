package simulate

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// tombstonePrefix begins the encrypted_content that the proxy puts into the
// items it closes on behalf of a discarded attempt. To an upstream it is an
// invalid blob like any other.
const tombstonePrefix = "doomproxy-tombstone-"

// refuse gives the error with which the real API turns down a request, or nil.
func refuse(req *Request) *apiError {
	if req.Header.Get("Content-Encoding") != "" {
		return nil
	}
	if !gjson.ValidBytes(req.Body) || !gjson.ParseBytes(req.Body).IsObject() {
		return &apiError{
			Message: "The request body is not a JSON object.",
			Type:    "invalid_request_error",
		}
	}
	for i, item := range gjson.GetBytes(req.Body, "input").Array() {
		if item.Get("type").Str != "reasoning" {
			continue
		}
		blob, id := item.Get("encrypted_content").Str, item.Get("id").Str
		forged := strings.HasPrefix(blob, tombstonePrefix)
		moved := strings.HasPrefix(blob, blobPrefix) && id != "" && blob != encrypted(id)
		if forged || moved {
			return &apiError{
				Message: "The encrypted content of item " + id + " cannot be verified.",
				Type:    "invalid_request_error",
				Param:   new("input[" + strconv.Itoa(i) + "]"),
				Code:    new("invalid_encrypted_content"),
			}
		}
	}
	return nil
}

// defaultError is what an answer with that status says when the scenario has
// no body for it.
func defaultError(status int) apiError {
	e := apiError{Message: "The simulated upstream answers " + strconv.Itoa(status) + "."}
	switch {
	case status == http.StatusUnauthorized:
		e.Type, e.Code = "invalid_request_error", new("invalid_api_key")
	case status == http.StatusTooManyRequests:
		e.Type, e.Code = "requests", new("rate_limit_exceeded")
	case status >= 500:
		e.Type, e.Code = "server_error", new("server_error")
	default:
		e.Type = "invalid_request_error"
	}
	return e
}

// writeError sends a plain answer that holds an error.
func writeError(w http.ResponseWriter, req *Request, status int, e apiError) error {
	return writeJSON(w, req, status, struct {
		Error apiError `json:"error"`
	}{e})
}

func writeJSON(w http.ResponseWriter, req *Request, status int, v any) error {
	return writeBody(w, req, status, encode(v))
}

// writeBody sends a whole plain answer.
func writeBody(w http.ResponseWriter, req *Request, status int, body []byte) error {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		body = nil // HTTP has none here, and net/http refuses to write one
	} else {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	req.settle()
	w.WriteHeader(status)
	if len(body) == 0 {
		return nil
	}
	req.wrote(string(body))
	if _, err := w.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// modelList is the answer to GET …/models.
func modelList() any {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	type list struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}
	return list{Object: "list", Data: []model{
		{defaultModel, "model", epoch, "simulate"},
		{"sim-1-mini", "model", epoch, "simulate"},
	}}
}
