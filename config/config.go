// Package config reads the configuration of doomproxy. A value is taken from the
// last of these that says something: the default, a YAML file, the environment,
// flags. Every key stands once, as a field of Config with what there is to know
// about it in its tags; file, environment, flags, their messages, the reference
// and the output of check-config follow from that.
package config

import "time"

// Config is the configuration. Its tags are
//
//	key       the name in the file, below that of the section
//	env       a second environment variable, for short
//	flag, arg the flag, and what its value is called
//	default   as it would be given
//	words     the words that may be given
//	range     lowest..highest; one of them may be missing
//	clamp     what is used for a number out of range: "nearest", or a number;
//	          without it such a number is an error
//	kind      what text has to be: address, url, path, directory, redis, token, tools
//	optional  that empty text means something other than "not given"
//	restart   that a change has no effect before the next start
//	doc       what it is for, in one line
//
// The type Secret is shown nowhere.
type Config struct {
	// Upstreams are the APIs, by name. DefaultUpstream is the one that requests go
	// to that name none.
	Upstreams       map[string]Upstream `key:"upstreams" doc:"The APIs. A request for /NAME/… goes to the one of that name, any other to the default upstream: the first --upstream, else that of DOOMPROXY_UPSTREAM, else the one named default, else the first in the file."`
	DefaultUpstream string

	Listen       string       `key:"listen" flag:"listen" arg:"ADDRESS" default:"127.0.0.1:3666" kind:"address" restart:"yes" doc:"address for agents"`
	TLS          TLS          `key:"tls" doc:"HTTPS for agents. The files are read again when they change."`
	Auth         Auth         `key:"auth" doc:"Who may use the proxy. Each file holds one token; it is read again when it changes."`
	AdminListen  string       `key:"admin_listen" flag:"admin-listen" arg:"ADDRESS" default:"127.0.0.1:3667" kind:"address" optional:"yes" restart:"yes" doc:"address for metrics, health checks and the live page; empty: none"`
	Admin        Admin        `key:"admin" doc:"Who may see the live page, cancel requests and switch the mode."`
	Delivery     string       `key:"delivery" flag:"delivery" arg:"DELIVERY" default:"live" words:"live hold" doc:"live sends thinking as it comes, hold once it leads to an answer"`
	Recovery     Recovery     `key:"recovery" doc:"What is done about loops."`
	Detector     Detector     `key:"detector" doc:"Loops that an upstream does not report are looked for in the text itself. What is found counts like a report."`
	Stationarity Stationarity `key:"stationarity" doc:"Agents that make the same tool calls again and again, with the same results, are told so at the end of their request."`
	Signals      Signals      `key:"signals" doc:"Which upstreams are asked to report loops."`
	Splice       Splice       `key:"splice" doc:"How a cut attempt is closed on the client's side: with a tombstone, which is taken out when it comes back, or not at all."`
	Hold         Hold         `key:"hold" doc:"What clients get that have to wait."`
	Retry        Retry        `key:"retry" doc:"Which attempts that fail are made again."`
	Limits       Limits       `key:"limits" doc:"How much, and how long, is too much."`
	Ledger       Ledger       `key:"ledger" doc:"Where it is remembered what cut attempts sent, so that it does not come back."`
	Capture      Capture      `key:"capture" doc:"What cut attempts sent can be kept for a look at it with doomproxy scan. That is what models wrote for users, in plain text."`
	Shutdown     Shutdown     `key:"shutdown" doc:"How it ends after the first signal. The second one ends all at once."`
	Log          Log          `key:"log" doc:"What goes to standard error."`
}

// Upstream is one API.
type Upstream struct {
	URL        string `key:"url" env:"DOOMPROXY_UPSTREAM" flag:"upstream" arg:"[NAME=]URL" kind:"url" doc:"base URL that the agent would use without the proxy (required)"`
	CAFile     string `key:"ca_file" kind:"path" doc:"PEM file: who vouches for it, besides those the system trusts"`
	ClientCert string `key:"client_cert" kind:"path" doc:"PEM file: certificate that it is shown"`
	ClientKey  string `key:"client_key" kind:"path" doc:"PEM file: key of that certificate"`
	Signals    string `key:"signals" words:"auto always never" doc:"ask it to report loops; empty: what signals.headers says"`
}

// TLS is how agents are served over HTTPS.
type TLS struct {
	Cert string `key:"cert" kind:"path" restart:"yes" doc:"PEM file: certificate that agents are shown, for HTTPS"`
	Key  string `key:"key" kind:"path" restart:"yes" doc:"PEM file: key of that certificate"`
}

// Auth is who may use the proxy.
type Auth struct {
	Tokens []Token `key:"tokens" doc:"agents have to send one of these in x-doomproxy-token"`
}

// Token is a file that holds one token.
type Token struct {
	Name string `key:"name"`
	File string `key:"file"`
}

// Admin is who may see more than metrics and health.
type Admin struct {
	Token Secret   `key:"token" kind:"token" doc:"operators have to send it; needed if other machines reach the listener"`
	Hosts []string `key:"hosts" doc:"names under which the live page is opened, besides addresses and localhost"`
}

// Recovery is what is done about loops.
type Recovery struct {
	Mode                     string `key:"mode" flag:"mode" arg:"MODE" default:"enforce" words:"enforce observe off" doc:"enforce cuts loops, observe only counts them, off looks into nothing"`
	NonStreaming             string `key:"non_streaming" default:"protect" words:"protect passthrough" doc:"what is done with requests that ask for no stream"`
	MaxThreshold             int    `key:"max_threshold" flag:"max-threshold" arg:"N" default:"64" range:"2..64" clamp:"nearest" doc:"loosest tail_repetition threshold that is acted on"`
	MaxRetries               int    `key:"max_retries" flag:"max-retries" arg:"N" default:"2" range:"0..5" clamp:"nearest" doc:"most new attempts for a request that loops"`
	WindowTokens             int    `key:"window_tokens" flag:"window-tokens" arg:"N" default:"1024" range:"512..4096" clamp:"4096" doc:"window of the upstream's detector, in tokens"`
	ExactRepetitionMinTokens int    `key:"exact_repetition_min_tokens" flag:"exact-repetition-min-tokens" arg:"N" default:"64" range:"1.." clamp:"nearest" doc:"smallest repeated unit that is reported, in tokens"`
	ClientOptIn              string `key:"client_opt_in" default:"defer" words:"defer own" doc:"if a client asks for reports itself: defer to it, or own the recovery"`
	Reminder                 string `key:"reminder" doc:"what an attempt is told of the one cut before; empty: a note of ours"`
	Replay                   Replay `key:"replay"`
	Drill                    bool   `key:"drill" flag:"drill" default:"false" doc:"let the request header x-doomproxy-drill: cut force one cut"`
}

// Replay bounds what the next attempt is told of a cut one.
type Replay struct {
	ReasoningBytes Size `key:"reasoning_bytes" default:"8KiB" range:"1..1MiB" doc:"most of a cut attempt's reasoning that is replayed"`
	TextBytes      Size `key:"text_bytes" default:"4KiB" range:"1..1MiB" doc:"most of its visible text"`
}

// Detector is what is done about loops that are not reported.
type Detector struct {
	Mode     string   `key:"mode" default:"enforce" words:"enforce observe off" doc:"enforce cuts them as recovery does, observe only counts them, off looks for none"`
	Channels []string `key:"channels" default:"thinking,response,tool" words:"thinking response tool" doc:"what is watched; only loops in the thinking are ever cut"`
	Act      []string `key:"act" default:"exact" words:"exact counter saturation" optional:"yes" doc:"which of its parts may cut, the others only warn; docs/detector.md tells what they find"`
}

// Stationarity is what is done about agents that repeat their tool calls.
type Stationarity struct {
	Mode       string   `key:"mode" default:"enforce" words:"enforce observe off" doc:"enforce tells them, observe only counts them, off looks at no conversation"`
	OnStop     string   `key:"on_stop" default:"nudge" words:"nudge end" doc:"what is done at …_stop: go on telling them, or end their turn without asking the upstream"`
	Results    string   `key:"results" default:"compare" words:"compare ignore" doc:"compare: a call is the same only if its result is, too, but for times and ids"`
	TightTools []string `key:"tight_tools" default:"read,read_file,readfile,read_files,read_many_files,fs_read,open_file,view,view_file,view_image,cat,todo,todo_read,todoread,todo_write,todowrite,write_todos,todo_list,update_todo_list,manage_todo_list,update_plan,plan" kind:"tools" doc:"tools that only read or plan, in any case: steps that call no others are tight, all others loose"`
	TightNudge int      `key:"tight_nudge" default:"4" range:"0..1000" doc:"how often a tight step is made before the agent is told; 0: never"`
	TightStop  int      `key:"tight_stop" default:"8" range:"0..1000" doc:"how often before its turn may be ended; 0: never"`
	LooseNudge int      `key:"loose_nudge" default:"8" range:"0..1000" doc:"the same of any other step"`
	LooseStop  int      `key:"loose_stop" default:"12" range:"0..1000" doc:"likewise"`
	NoOpStop   int      `key:"no_op_stop" default:"4" range:"0..1000" doc:"the same of a shell command that is just true; it is never told before that"`
}

// Signals is how reports of loops are come by.
type Signals struct {
	Headers string `key:"headers" default:"auto" words:"auto always never" doc:"ask for reports; auto: all upstreams but those known to have none"`
}

// Splice is how a cut attempt is closed on the client's side.
type Splice struct {
	Profiles []Profile `key:"profiles" default:"codex=dangling,Codex =dangling,pi/=dangling,pi (=dangling,opencode/=dangling" doc:"whose open thought is closed how, by the User-Agent; others: tombstone"`
}

// Profile says how it is done for clients whose User-Agent has a prefix.
type Profile struct {
	UserAgentPrefix string `key:"user_agent_prefix"`
	Close           string `key:"close"`
}

// Hold is about what is held back, or waits.
type Hold struct {
	MaxBytes  Size          `key:"max_bytes" default:"8MiB" range:"1..1GiB" doc:"most that is held back for one client; beyond it delivery is live"`
	KeepAlive time.Duration `key:"keepalive" default:"15s" range:"10ms.." doc:"how often a client that waits is sent a comment"`
}

// Retry is which failed attempts are made again.
type Retry struct {
	MaxRetries  int           `key:"max_retries" default:"2" range:"0..10" doc:"how often one request is made again"`
	On          []string      `key:"on" default:"connect,rate_limit,server,drop,failed_event,empty" words:"connect rate_limit server drop failed_event empty idle" optional:"yes" doc:"after which failures it is made again"`
	Backoff     string        `key:"backoff" default:"exponential" words:"exponential linear fixed" doc:"how the waits between grow: from 0.5s to 8s"`
	MaxWait     time.Duration `key:"max_wait" default:"30s" range:"10ms.." doc:"longest wait that an upstream may ask for"`
	IdleTimeout time.Duration `key:"idle_timeout" default:"4m" range:"10ms.." doc:"silence that counts as the failure idle"`
}

// Limits is what is too much.
type Limits struct {
	Body                  Size          `key:"body" default:"64MiB" range:"1..1GiB" doc:"largest request body, decompressed"`
	Frame                 Size          `key:"frame" default:"16MiB" range:"1..1GiB" doc:"largest event that is looked into"`
	Memory                Size          `key:"memory" default:"1GiB" range:"1..1TiB" doc:"all bodies and held events together; beyond it requests are not protected"`
	Concurrent            int           `key:"concurrent" default:"0" range:"0..1000000" doc:"protected requests at a time, others get 503; 0: any number"`
	ClientTimeout         time.Duration `key:"client_timeout" default:"1m" range:"10ms.." doc:"how long an agent may send or take nothing"`
	Silence               time.Duration `key:"silence" default:"10m" range:"10ms.." doc:"how long an upstream may send nothing"`
	ResponseHeaderTimeout time.Duration `key:"response_header_timeout" default:"0s" range:"0s.." doc:"how long an upstream's answer may take to begin; 0s: any time"`
	Header                Size          `key:"header" default:"1MiB" range:"1..16MiB" restart:"yes" doc:"largest headers of a request"`
	HeaderTimeout         time.Duration `key:"header_timeout" default:"10s" range:"10ms.." restart:"yes" doc:"how long they may take to arrive"`
}

// Ledger is where it is remembered what discarded attempts sent.
type Ledger struct {
	Store      string        `key:"store" default:"file" words:"file memory redis" restart:"yes" doc:"where it is kept"`
	Path       string        `key:"path" kind:"path" restart:"yes" doc:"its file; empty: one for each port, with the user's state"`
	RedisURL   Secret        `key:"redis_url" kind:"redis" restart:"yes" doc:"its Redis, which several proxies may share"`
	TTL        time.Duration `key:"ttl" default:"720h" range:"1m.." restart:"yes" doc:"how long it remembers"`
	MaxEntries int           `key:"max_entries" default:"200000" range:"1000..10000000" restart:"yes" doc:"how much it remembers; the oldest goes first"`
}

// Capture is where discarded attempts are kept.
type Capture struct {
	Dir      string `key:"dir" kind:"directory" doc:"directory for files with what cut attempts sent; empty: none is kept"`
	MaxBytes Size   `key:"max_bytes" default:"100MiB" range:"1..1TiB" doc:"all these files together; the oldest go first"`
}

// Shutdown is how it ends.
type Shutdown struct {
	Delay time.Duration `key:"delay" default:"0s" range:"0s.." doc:"how long requests are still taken in while /readyz says 503"`
	Grace time.Duration `key:"grace" default:"30s" range:"0s.." doc:"how long what runs may go on after that, before it is dropped"`
}

// Log is what is logged.
type Log struct {
	Level  string `key:"level" flag:"log-level" arg:"LEVEL" default:"info" words:"debug info warn error" doc:"least that is logged"`
	Format string `key:"format" flag:"log-format" arg:"FORMAT" default:"text" words:"text json" restart:"yes" doc:"form of a record"`
}

// Secret is text that no output repeats.
type Secret string

// String returns a mark that stands for any secret, "" for none.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString keeps a secret out of %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps a secret out of logs, JSON and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// hidden stands for what is not shown.
const hidden = "…"
