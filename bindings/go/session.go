package tuffet

// #include <stdlib.h>
// #include <tuffet.h>
//
// bool tuffetGoProgress(void *user, double done);
//
// static int32_t sample(struct tft_sampler *z, struct tft_sampler_more more,
//                       const int32_t *breakers, struct tft_session *s)
// {
//     more.size = sizeof more;
//     more.dry_breakers = breakers;
//     z->more = &more;
//     int32_t id = tft_sample(z, s);
//     z->more = NULL;
//     return id;
// }
import "C"

import (
	"context"
	"errors"
	"math"
	"runtime/cgo"
	"unsafe"
)

// SessionOptions is how to open a session. In every field the zero value is the default.
type SessionOptions struct {
	Capacity    uint32 // how many tokens fit; 0: the model's context length
	Batch       uint32 // tokens computed in one pass, at most; 0: 512
	Logits      uint32 // how many of the newest tokens of a call keep their logits; 0: 1
	Hidden      uint32 // how many of the newest tokens of a call keep their hidden vector
	NoLogits    bool   // compute no logits; Logits must be 0
	Threads     int    // at most 1024; 0: one for each fast core
	Slide       bool   // when the session is full, drop old tokens instead of failing with Full
	KV          string // the KV cache, such as "f16" or "kivi:bits=4"; "": the file's, or "i8"
	Prefix      string // name of the prefix that the session begins with; "": the model's own
	Checkpoints uint32 // copies of the state to which the session can go back; 0: 4
	Lookup      uint32 // how many guesses of the next tokens a pass may compute, at most 14
}

// Session is one sequence of tokens, its KV cache, and the logits after its last tokens. All of its
// memory is taken when it is opened.
type Session struct {
	raw    *C.struct_tft_session
	model  *Model
	prefix *C.char
	watch  *watch
	handle *C.uintptr_t // a cgo.Handle of watch, in C's memory
}

// watch is what the progress callback looks at. C holds it by its handle, which is a number.
type watch struct {
	done <-chan struct{} // of the context of the running call
}

//export tuffetGoProgress
func tuffetGoProgress(user unsafe.Pointer, done C.double) C.bool {
	w := cgo.Handle(*(*C.uintptr_t)(user)).Value().(*watch)
	select {
	case <-w.done: // never, if it is nil
		return false
	default:
		return true
	}
}

// NewSession opens a session. options may be nil. The caller closes the session before the model.
func (m *Model) NewSession(options *SessionOptions) (*Session, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.raw == nil {
		return nil, errModelClosed
	}
	if options == nil {
		options = &SessionOptions{}
	}
	kv, err := cString("KV", options.KV)
	if err != nil {
		return nil, err
	}
	defer free(kv)
	prefix, err := cString("the prefix", options.Prefix)
	if err != nil {
		return nil, err
	}

	s := &Session{model: m, prefix: prefix, watch: &watch{}}
	s.handle = (*C.uintptr_t)(C.malloc(C.sizeof_uintptr_t)) // cgo's malloc does not fail
	*s.handle = C.uintptr_t(cgo.NewHandle(s.watch))
	var opts C.struct_tft_session_opts
	opts.size = C.sizeof_struct_tft_session_opts
	opts.capacity = C.uint32_t(options.Capacity)
	opts.n_batch = C.uint32_t(options.Batch)
	opts.n_logits = C.uint32_t(options.Logits)
	opts.n_hidden = C.uint32_t(options.Hidden)
	opts.no_logits = C.bool(options.NoLogits)
	opts.n_threads = cInt(options.Threads)
	opts.slide = C.bool(options.Slide)
	opts.kv = kv
	opts.prefix = prefix
	opts.checkpoints = C.uint32_t(options.Checkpoints)
	opts.lookup = C.uint32_t(options.Lookup)
	opts.progress = (*[0]byte)(C.tuffetGoProgress)
	opts.progress_user = unsafe.Pointer(s.handle)
	var raw *C.struct_tft_session
	var e C.struct_tft_error
	if err := failure(C.tft_session_open(&raw, m.raw, &opts, &e), &e); err != nil {
		s.release()
		return nil, err
	}
	s.raw = raw
	m.count.Lock()
	m.sessions++
	m.count.Unlock()
	return s, nil
}

func (s *Session) release() {
	cgo.Handle(*s.handle).Delete()
	C.free(unsafe.Pointer(s.handle))
	free(s.prefix)
}

// Close closes the session. Closing twice is fine.
func (s *Session) Close() {
	if s.raw == nil {
		return
	}
	C.tft_session_close(s.raw)
	s.raw = nil
	s.release()
	s.model.count.Lock()
	s.model.sessions--
	s.model.count.Unlock()
}

var errSessionClosed = &Error{Status: Argument, Message: "the session is closed"}

func (s *Session) failure(code C.enum_tft_status) error {
	return failure(code, C.tft_session_error(s.raw))
}

// feed runs a call that the context may end.
func (s *Session) feed(ctx context.Context, call func() C.enum_tft_status) error {
	if s.raw == nil {
		return errSessionClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.watch.done = ctx.Done()
	code := call()
	s.watch.done = nil
	if err := ctx.Err(); err != nil && code == C.TFT_ERR_CANCELLED {
		return err
	}
	return s.failure(code)
}

// Prefill appends tokens and computes them. When the context is done, it ends with the context's
// error, and the session keeps the tokens of the passes that were complete: see Pos.
func (s *Session) Prefill(ctx context.Context, ids []int32) error {
	return s.feed(ctx, func() C.enum_tft_status {
		return C.tft_prefill(s.raw, idsOf(ids), C.size_t(len(ids)))
	})
}

// Sync makes the session hold exactly these tokens: it keeps the longest common beginning, and
// computes the rest. The context is that of Prefill.
func (s *Session) Sync(ctx context.Context, ids []int32) error {
	return s.feed(ctx, func() C.enum_tft_status {
		return C.tft_sync(s.raw, idsOf(ids), C.size_t(len(ids)))
	})
}

// Decode appends one token and computes it.
func (s *Session) Decode(id int32) error {
	if s.raw == nil {
		return errSessionClosed
	}
	return s.failure(C.tft_decode(s.raw, C.int32_t(id)))
}

// Rewind drops every token from position pos on.
func (s *Session) Rewind(pos int) error {
	if s.raw == nil {
		return errSessionClosed
	}
	if pos < 0 {
		return argument("position %d", pos)
	}
	return s.failure(C.tft_rewind(s.raw, C.size_t(pos)))
}

// Pos is how many tokens the session holds.
func (s *Session) Pos() int {
	if s.raw == nil {
		return 0
	}
	return int(C.tft_pos(s.raw))
}

// Capacity is how many tokens fit.
func (s *Session) Capacity() int {
	if s.raw == nil {
		return 0
	}
	return int(C.tft_capacity(s.raw))
}

// Guessed is how many tokens were computed as guesses, and then came: see SessionOptions.Lookup.
func (s *Session) Guessed() uint64 {
	if s.raw == nil {
		return 0
	}
	return uint64(C.tft_guessed(s.raw))
}

// Tokens is a copy of the tokens that the session holds.
func (s *Session) Tokens() []int32 {
	n := s.Pos()
	if n == 0 {
		return nil
	}
	ids := unsafe.Slice((*int32)(unsafe.Pointer(C.tft_tokens(s.raw))), n)
	return append([]int32(nil), ids...)
}

func floats(p *C.float, n int) []float32 {
	if p == nil {
		return nil
	}
	return append([]float32(nil), unsafe.Slice((*float32)(unsafe.Pointer(p)), n)...)
}

// LogitsOf is a copy of the logits [Vocab] after the newest token (back = 0), the one before it
// (1), ... of the last call; nil if they were not kept.
func (s *Session) LogitsOf(back int) []float32 {
	if s.raw == nil || back < 0 {
		return nil
	}
	return floats(C.tft_logits(s.raw, C.size_t(back)), s.model.info.Vocab)
}

// HiddenOf is a copy of the hidden vector [Embedding] of the newest token, the one before it, ...;
// nil if it was not kept.
func (s *Session) HiddenOf(back int) []float32 {
	if s.raw == nil || back < 0 {
		return nil
	}
	return floats(C.tft_hidden(s.raw, C.size_t(back)), s.model.info.Embedding)
}

// Choice is a token and the logarithm of the probability that it comes next.
type Choice struct {
	ID      int32
	Logprob float32
}

// Likeliest returns the k most likely next tokens.
func (s *Session) Likeliest(k int) []Choice {
	if k > s.model.info.Vocab {
		k = s.model.info.Vocab
	}
	if s.raw == nil || k <= 0 {
		return nil
	}
	raw := make([]C.struct_tft_choice, k)
	n := int(C.tft_likeliest(s.raw, nil, &raw[0], C.size_t(k)))
	out := make([]Choice, n)
	for i := range out {
		out[i] = Choice{int32(raw[i].id), float32(raw[i].logprob)}
	}
	return out
}

// Logprob is the logarithm of the probability that this token comes next; NaN without logits.
func (s *Session) Logprob(id int32) float32 {
	if s.raw == nil {
		return float32(math.NaN())
	}
	return float32(C.tft_logprob(s.raw, nil, C.int32_t(id)))
}

// Sampler is how the next token is chosen; the zero value takes the most likely. tuffet.h has the
// rules.
type Sampler struct {
	Temperature   float32
	TopK          int32
	TopP          float32
	MinP          float32
	RepeatPenalty float32
	RepeatLast    int32
	Seed          uint64  // every draw changes it
	More          *More   // settings of further steps; nil: none
	MirostatMu    float32 // state of mirostat, which changes it; 0: before the first token
	MinTokens     uint32  // how many tokens come before one that ends generation; each lowers it
}

// More is the settings of the sampler's further steps: DRY, XTC, typical, top-n-sigma, mirostat 2
// and dynamic temperature. The zero value switches all of them off.
type More struct {
	DryMultiplier    float32
	DryBase          float32
	DryAllowedLength uint32
	DryLast          uint32
	DryBreakers      []int32 // tokens, in ascending order
	XTCProbability   float32
	XTCThreshold     float32
	TypicalP         float32
	TopNSigma        float32
	MirostatTau      float32
	MirostatEta      float32
	DynatempRange    float32
	DynatempExponent float32
}

func (m *More) raw() (r C.struct_tft_sampler_more) {
	r.dry_multiplier = C.float(m.DryMultiplier)
	r.dry_base = C.float(m.DryBase)
	r.dry_allowed_length = C.uint32_t(m.DryAllowedLength)
	r.dry_last = C.uint32_t(m.DryLast)
	r.n_dry_breakers = C.uint32_t(len(m.DryBreakers))
	r.xtc_probability = C.float(m.XTCProbability)
	r.xtc_threshold = C.float(m.XTCThreshold)
	r.typical_p = C.float(m.TypicalP)
	r.top_n_sigma = C.float(m.TopNSigma)
	r.mirostat_tau = C.float(m.MirostatTau)
	r.mirostat_eta = C.float(m.MirostatEta)
	r.dynatemp_range = C.float(m.DynatempRange)
	r.dynatemp_exponent = C.float(m.DynatempExponent)
	return r
}

func (z *Sampler) raw() (r C.struct_tft_sampler) {
	r.temperature = C.float(z.Temperature)
	r.top_k = C.int32_t(z.TopK)
	r.top_p = C.float(z.TopP)
	r.min_p = C.float(z.MinP)
	r.repeat_penalty = C.float(z.RepeatPenalty)
	r.repeat_last = C.int32_t(z.RepeatLast)
	r.seed = C.uint64_t(z.Seed)
	r.mirostat_mu = C.float(z.MirostatMu)
	r.min_tokens = C.uint32_t(z.MinTokens)
	return r
}

func (z *Sampler) set(r *C.struct_tft_sampler) {
	*z = Sampler{float32(r.temperature), int32(r.top_k), float32(r.top_p), float32(r.min_p),
		float32(r.repeat_penalty), int32(r.repeat_last), uint64(r.seed), z.More,
		float32(r.mirostat_mu), z.MinTokens}
}

// Sample chooses the next token, which is not fed; -1 if there are no logits, or if no token may
// come.
func (s *Session) Sample(z *Sampler) int32 {
	if s.raw == nil {
		return -1
	}
	raw := z.raw()
	more := z.More
	if more == nil {
		more = &More{}
	}
	var breakers *C.int32_t
	if len(more.DryBreakers) > 0 {
		breakers = (*C.int32_t)(&more.DryBreakers[0])
	}
	id := int32(C.sample(&raw, more.raw(), breakers, s.raw))
	z.Seed = uint64(raw.seed)
	z.MirostatMu = float32(raw.mirostat_mu)
	z.MinTokens = uint32(raw.min_tokens)
	return id
}

// Save saves the session and the sampler to a file, which is replaced when the new one is complete.
func (s *Session) Save(z *Sampler, path string) error {
	name, err := s.path(path)
	if err != nil {
		return err
	}
	defer free(name)
	raw := z.raw()
	var e C.struct_tft_error
	return failure(C.tft_session_save(s.raw, &raw, name, &e), &e)
}

// Load replaces what the session holds, and the sampler's settings, by a saved session of the same
// model, prefix and cache. After an error both are as they were.
func (s *Session) Load(z *Sampler, path string) error {
	name, err := s.path(path)
	if err != nil {
		return err
	}
	defer free(name)
	raw := z.raw()
	var e C.struct_tft_error
	if err := failure(C.tft_session_load(s.raw, &raw, name, &e), &e); err != nil {
		return err
	}
	z.set(&raw)
	return nil
}

func (s *Session) path(path string) (*C.char, error) {
	if s.raw == nil {
		return nil, errSessionClosed
	}
	if path == "" {
		return nil, argument("the path is empty")
	}
	return cString("the path", path)
}

// CopyFrom replaces what the session holds by what another session of the same model holds.
func (s *Session) CopyFrom(other *Session) error {
	if s.raw == nil || other.raw == nil {
		return errSessionClosed
	}
	var e C.struct_tft_error
	return failure(C.tft_session_copy(s.raw, other.raw, &e), &e)
}

// Generator is the text that a session generates, see Session.Generate.
type Generator struct {
	ctx     context.Context
	session *Session
	sampler *Sampler
	state   C.struct_tft_text
	text    []byte
	left    int
	done    bool
	err     error
}

// Generate makes the session hold the prompt, and continues it with at most n tokens. The beginning
// of the prompt that the session holds already is not computed again. Next gives the text as it
// comes, until the model ends it, the session is full, or the context is done, which is an error.
func (s *Session) Generate(ctx context.Context, prompt string, n int, z *Sampler) (*Generator, error) {
	if s.raw == nil {
		return nil, errSessionClosed
	}
	ids, err := s.model.Tokenize(prompt, AddBOS)
	if err != nil {
		return nil, err
	}
	held := int(C.tft_prefix_held(s.model.raw, s.prefix, idsOf(ids), C.size_t(len(ids))))
	if held < len(ids) {
		err = s.Sync(ctx, ids[held:])
	} else if err = s.Rewind(0); err == nil {
		err = s.Prefill(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	g := &Generator{ctx: ctx, session: s, sampler: z, left: n}
	g.state.started = true
	return g, nil
}

// step appends the text of one more token; false if there is none.
func (g *Generator) step() (bool, error) {
	if g.left <= 0 {
		return false, nil
	}
	g.left--
	s := g.session
	if s.raw == nil {
		return false, errSessionClosed
	}
	if err := g.ctx.Err(); err != nil {
		return false, err
	}
	id := s.Sample(g.sampler)
	if id < 0 {
		return false, argument("no token may come next")
	}
	if s.model.TokenEnds(id) {
		return false, nil
	}
	g.text = s.model.push(&g.state, id, g.text)
	err := s.Decode(id)
	if errors.Is(err, Full) {
		return false, nil
	}
	return err == nil, err
}

// Next computes more text, whole characters; false at the end, and after an error.
func (g *Generator) Next() bool {
	g.text = g.text[:0]
	for !g.done && len(g.text) == 0 {
		more, err := g.step()
		if err != nil {
			g.done, g.err, g.text = true, err, g.text[:0]
		} else if !more {
			g.done = true
			if g.session.raw != nil {
				g.text = g.session.model.push(&g.state, -1, g.text)
			}
		}
	}
	return len(g.text) > 0
}

// Text is what the last Next computed.
func (g *Generator) Text() string { return string(g.text) }

// Err is why Next ended, nil if the text did.
func (g *Generator) Err() error { return g.err }
