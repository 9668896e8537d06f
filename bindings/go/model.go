package tuffet

// #include <stdlib.h>
// #include <tuffet.h>
import "C"

import (
	"strings"
	"sync"
	"unsafe"
)

// Weights is how to hold weights that are quantized in the file.
type Weights int

// Stored: as the file has them. The others: expanded to floats.
const (
	Stored Weights = C.TFT_WEIGHTS_STORED
	F32    Weights = C.TFT_WEIGHTS_F32
	F16    Weights = C.TFT_WEIGHTS_F16
	BF16   Weights = C.TFT_WEIGHTS_BF16
)

// ModelOptions is how to open a model. In every field the zero value is the default.
type ModelOptions struct {
	Tokenizer    string  // the vocabulary file of a llama2.c model
	Weights      Weights // how to hold weights that are quantized in the file
	VocabOnly    bool    // open the tokenizer alone; such a model cannot have sessions
	Threads      int     // for packing and expanding weights; 0: one for each fast core
	Device       string  // "cpu"; "cuda", or "cuda:1" for the second GPU
	GPULayers    uint32  // how many of the last layers the device computes; 0: all
	ExpertsBytes uint64  // the most bytes of experts in memory; 0: by the size of the file
	Predictor    bool    // open the block that predicts a further token, too, for draft tokens
}

// Model is an open model: weights, tokenizer, architecture. It never changes.
//
// The file is mapped. While the model is open, the file may not be truncated or written to; to
// replace it, rename a new file over it.
type Model struct {
	mu       sync.RWMutex // held for reading by calls, for writing by Close
	raw      *C.struct_tft_model
	sessions int // open ones; guarded by count
	count    sync.Mutex
	info     ModelInfo
}

// ModelInfo is what a model is. Dimensions other than Vocab are 0 if only the tokenizer is open.
type ModelInfo struct {
	Arch, Name  string // architecture, such as "llama"; general.name of the file, or ""
	Params      uint64 // number of weights
	WeightBytes uint64 // bytes of weights that computing one token reads
	Vocab       int
	Context     int // the most tokens of a session
	Embedding   int
	Layers      int
	Prefix      int // positions of the model's prefix, which Context does not count
}

// cString copies s to C's memory; nil for "". The caller frees it.
func cString(what, s string) (*C.char, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, argument("%s has a byte of zero", what)
	}
	if s == "" {
		return nil, nil
	}
	return C.CString(s), nil
}

func free(p *C.char) { C.free(unsafe.Pointer(p)) }

// bytesOf points to the bytes of s, of which C reads len(s).
func bytesOf(s []byte) *C.char {
	if len(s) == 0 {
		return nil
	}
	return (*C.char)(unsafe.Pointer(&s[0]))
}

func idsOf(ids []int32) *C.int32_t {
	if len(ids) == 0 {
		return nil
	}
	return (*C.int32_t)(unsafe.Pointer(&ids[0]))
}

// cInt is a number of threads. The library refuses -1, and with it what C's int cannot hold.
func cInt(n int) C.int {
	if int(C.int(n)) != n {
		return -1
	}
	return C.int(n)
}

// Open opens a model file: GGUF, or a llama2.c checkpoint. options may be nil.
func Open(path string, options *ModelOptions) (*Model, error) {
	if path == "" {
		return nil, argument("the path is empty")
	}
	if options == nil {
		options = &ModelOptions{}
	}
	name, err := cString("the path", path)
	if err != nil {
		return nil, err
	}
	defer free(name)
	tokenizer, err := cString("the tokenizer's path", options.Tokenizer)
	if err != nil {
		return nil, err
	}
	defer free(tokenizer)
	device, err := cString("the device", options.Device)
	if err != nil {
		return nil, err
	}
	defer free(device)

	var opts C.struct_tft_model_opts
	opts.size = C.sizeof_struct_tft_model_opts
	opts.tokenizer = tokenizer
	opts.weights = C.enum_tft_weights(options.Weights)
	opts.vocab_only = C.bool(options.VocabOnly)
	opts.n_threads = cInt(options.Threads)
	opts.device = device
	opts.gpu_layers = C.uint32_t(options.GPULayers)
	opts.experts_bytes = C.uint64_t(options.ExpertsBytes)
	opts.predictor = C.bool(options.Predictor)
	var raw *C.struct_tft_model
	var e C.struct_tft_error
	if err := failure(C.tft_model_open(&raw, name, &opts, &e), &e); err != nil {
		return nil, err
	}

	var i C.struct_tft_model_info
	i.size = C.sizeof_struct_tft_model_info
	C.tft_model_describe(raw, &i)
	return &Model{raw: raw, info: ModelInfo{
		Arch: C.GoString(i.arch), Name: C.GoString(i.name),
		Params: uint64(i.n_params), WeightBytes: uint64(i.weight_bytes),
		Vocab: int(i.n_vocab), Context: int(i.n_ctx), Embedding: int(i.n_embd),
		Layers: int(i.n_layer), Prefix: int(i.n_prefix),
	}}, nil
}

// Close closes the model. It fails while a session of the model is open. Closing twice is fine.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions > 0 {
		return argument("the model has open sessions: %d", m.sessions)
	}
	C.tft_model_close(m.raw)
	m.raw = nil
	return nil
}

var errModelClosed = &Error{Status: Argument, Message: "the model is closed"}

// Info is what the model is, also after Close.
func (m *Model) Info() ModelInfo { return m.info }

// Flags says how Tokenize reads a text.
type Flags uint

const (
	// AddBOS begins with BOS, if the vocabulary asks for one and the model's prefix does not
	// include it.
	AddBOS Flags = C.TFT_ADD_BOS
	// AddEOS ends with EOS, or [SEP] of BERT, if the model wants it after a text to embed.
	AddEOS Flags = C.TFT_ADD_EOS
	// Continue: the text continues another one.
	Continue Flags = C.TFT_CONTINUE
	// ParseSpecial turns names such as <|im_end|> into special tokens. Not for text that a user
	// wrote.
	ParseSpecial Flags = C.TFT_PARSE_SPECIAL
)

// Tokenize returns the tokens of a text. Bytes that are not UTF-8 are encoded one by one.
func (m *Model) Tokenize(text string, flags Flags) ([]int32, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.raw == nil {
		return nil, errModelClosed
	}
	bytes := []byte(text)
	ids := make([]int32, len(bytes)/2+16) // enough for most texts; if not, n says how many
	for {
		var n C.size_t
		code := C.tft_tokenize(m.raw, bytesOf(bytes), C.size_t(len(bytes)), C.uint(flags),
			idsOf(ids), C.size_t(len(ids)), &n)
		if code == C.TFT_ERR_FULL && int(n) > len(ids) {
			ids = make([]int32, int(n))
			continue
		}
		if err := failure(code, nil); err != nil {
			return nil, err
		}
		return ids[:int(n)], nil
	}
}

// push appends the text that token id completes; -1 ends the text. The model is open.
func (m *Model) push(state *C.struct_tft_text, id int32, out []byte) []byte {
	var piece [C.TFT_TEXT_MAX]byte
	n := C.tft_text_push(state, m.raw, C.int32_t(id), bytesOf(piece[:]))
	return append(out, piece[:int(n)]...)
}

// Detokenize returns the text of tokens. Special tokens have none; bytes that are no character
// become U+FFFD. A closed model returns "".
func (m *Model) Detokenize(ids []int32) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.raw == nil {
		return ""
	}
	var state C.struct_tft_text
	var out []byte
	for _, id := range ids {
		if id >= 0 { // -1 would end the text
			out = m.push(&state, id, out)
		}
	}
	return string(m.push(&state, -1, out))
}

// BOS is the token for the beginning of a sequence, -1 if there is none.
func (m *Model) BOS() int32 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.raw == nil {
		return -1
	}
	return int32(C.tft_token_bos(m.raw))
}

// EOS is the token for the end of a sequence, -1 if there is none.
func (m *Model) EOS() int32 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.raw == nil {
		return -1
	}
	return int32(C.tft_token_eos(m.raw))
}

// TokenEnds is whether generation stops at this token.
func (m *Model) TokenEnds(id int32) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.raw != nil && bool(C.tft_token_ends(m.raw, C.int32_t(id)))
}
