use std::ffi::CString;
use std::os::raw::{c_int, c_uint};
use std::path::{Path, PathBuf};
use std::ptr::{null, NonNull};

use crate::error::{check, check_code, text};
use crate::{sys, Error, Grammar, GrammarKind, Result, Session, SessionOptions};

/// An open model: weights, tokenizer, architecture. It never changes, so threads may share it.
///
/// The file is mapped. While the model is open, the file may not be truncated or written to; to
/// replace it, rename a new file over it.
#[derive(Debug)]
pub struct Model {
    raw: NonNull<sys::tft_model>,
}

// tuffet.h, "Threads": any number of threads may call what takes a const model.
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

/// How to hold weights that are quantized in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// As the file has them.
    #[default]
    Stored,
    /// Expanded to 32-bit floats.
    F32,
    /// Expanded to 16-bit floats.
    F16,
    /// Expanded to bfloat16.
    Bf16,
}

/// How to open a model; `default()` is right for most.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// The vocabulary file of a llama2.c model.
    pub tokenizer: Option<PathBuf>,
    /// How to hold weights that are quantized in the file.
    pub weights: Weights,
    /// Open the tokenizer alone. Such a model cannot have sessions.
    pub vocab_only: bool,
    /// Threads for packing and expanding weights; 0: one for each fast core.
    pub threads: u16,
    /// Where to compute: `None` or "cpu"; "cuda", or "cuda:1" for the second GPU.
    pub device: Option<String>,
    /// How many of the last layers the device computes; 0: all.
    pub gpu_layers: u32,
    /// The most bytes of experts that stay in memory; 0: no bound, unless the file is larger than
    /// memory.
    pub experts_bytes: u64,
    /// Open the block that predicts a further token, too: draft tokens for sessions with a lookup.
    pub predictor: bool,
}

/// What a model is. Dimensions other than `n_vocab` are 0 if only the tokenizer is open.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ModelInfo {
    /// The architecture, such as "llama".
    pub arch: String,
    /// `general.name` of the file, or "".
    pub name: String,
    /// Number of weights.
    pub n_params: u64,
    /// Bytes of weights that computing one token reads.
    pub weight_bytes: u64,
    pub n_vocab: usize,
    /// The most tokens of a session.
    pub n_ctx: usize,
    pub n_embd: usize,
    pub n_layer: usize,
    /// Positions of the model's prefix, which `n_ctx` does not count.
    pub n_prefix: usize,
}

/// How [`Model::tokenize`] reads a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokenize {
    /// Begin with BOS, if the vocabulary asks for one and the model's prefix does not include it.
    pub add_bos: bool,
    /// End with EOS, or `[SEP]` of BERT, if the model wants it after a text to embed.
    pub add_eos: bool,
    /// The text continues another one.
    pub continues: bool,
    /// Turn names such as `<|im_end|>` into special tokens. Not for text that a user wrote.
    pub parse_special: bool,
}

pub(crate) fn c_string(what: &str, bytes: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::argument(format!("{what} has a byte of zero")))
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    #[cfg(unix)]
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    #[cfg(not(unix))]
    let bytes = path.to_str().ok_or_else(|| Error::argument("the path is not UTF-8"))?.as_bytes();
    c_string("the path", bytes)
}

impl Model {
    /// Opens a model file: GGUF, or a llama2.c checkpoint.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        Model::open_with(path, &ModelOptions::default())
    }

    /// Opens a model file with options.
    pub fn open_with(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Model> {
        let path = c_path(path.as_ref())?;
        let tokenizer = options.tokenizer.as_deref().map(c_path).transpose()?;
        let device = options.device.as_deref().map(|d| c_string("device", d)).transpose()?;
        let mut opts: sys::tft_model_opts = unsafe { std::mem::zeroed() };
        opts.size = std::mem::size_of_val(&opts);
        opts.tokenizer = tokenizer.as_ref().map_or(null(), |t| t.as_ptr());
        opts.weights = options.weights as c_uint;
        opts.vocab_only = options.vocab_only;
        opts.n_threads = c_int::from(options.threads);
        opts.device = device.as_ref().map_or(null(), |d| d.as_ptr());
        opts.gpu_layers = options.gpu_layers;
        opts.experts_bytes = options.experts_bytes;
        opts.predictor = options.predictor;
        let mut raw = std::ptr::null_mut();
        check(|err| unsafe { sys::tft_model_open(&mut raw, path.as_ptr(), &opts, err) })?;
        Ok(Model { raw: NonNull::new(raw).expect("an open model") })
    }

    pub(crate) fn raw(&self) -> *mut sys::tft_model {
        self.raw.as_ptr()
    }

    /// What the model is.
    pub fn info(&self) -> ModelInfo {
        let mut i: sys::tft_model_info = unsafe { std::mem::zeroed() };
        i.size = std::mem::size_of_val(&i);
        unsafe { sys::tft_model_describe(self.raw(), &mut i) };
        ModelInfo {
            arch: unsafe { text(i.arch) },
            name: unsafe { text(i.name) },
            n_params: i.n_params,
            weight_bytes: i.weight_bytes,
            n_vocab: i.n_vocab as usize,
            n_ctx: i.n_ctx as usize,
            n_embd: i.n_embd as usize,
            n_layer: i.n_layer as usize,
            n_prefix: i.n_prefix as usize,
        }
    }

    /// The tokens of a text. Bytes that are not UTF-8 are encoded one by one.
    pub fn tokenize(&self, text: impl AsRef<[u8]>, how: Tokenize) -> Result<Vec<i32>> {
        let text = text.as_ref();
        let flags = if how.add_bos { sys::TFT_ADD_BOS } else { 0 }
            | if how.add_eos { sys::TFT_ADD_EOS } else { 0 }
            | if how.continues { sys::TFT_CONTINUE } else { 0 }
            | if how.parse_special { sys::TFT_PARSE_SPECIAL } else { 0 };
        // enough for most texts; if there are more tokens, n says how many
        let (mut ids, mut n) = (vec![0; text.len() / 2 + 16], 0);
        loop {
            let code = unsafe {
                sys::tft_tokenize(
                    self.raw(),
                    text.as_ptr().cast(),
                    text.len(),
                    flags,
                    ids.as_mut_ptr(),
                    ids.len(),
                    &mut n,
                )
            };
            if code == sys::TFT_ERR_FULL && n > ids.len() {
                ids.resize(n, 0);
                continue;
            }
            check_code(code, null())?;
            ids.truncate(n);
            return Ok(ids);
        }
    }

    /// The text of tokens. Special tokens have none; bytes that are no character become U+FFFD.
    pub fn detokenize(&self, ids: &[i32]) -> String {
        let mut decoder = TextDecoder::new(false);
        let mut out = String::new();
        for &id in ids {
            decoder.push(self, id, &mut out);
        }
        decoder.push(self, -1, &mut out);
        out
    }

    /// The token for the beginning of a sequence.
    pub fn bos(&self) -> Option<i32> {
        Some(unsafe { sys::tft_token_bos(self.raw()) }).filter(|&id| id >= 0)
    }

    /// The token for the end of a sequence.
    pub fn eos(&self) -> Option<i32> {
        Some(unsafe { sys::tft_token_eos(self.raw()) }).filter(|&id| id >= 0)
    }

    /// The tokens before the prefix, the suffix and the middle of a text with a gap.
    pub fn fim(&self) -> Option<[i32; 3]> {
        Some([0, 1, 2].map(|part| unsafe { sys::tft_token_fim(self.raw(), part) }))
            .filter(|ids| ids.iter().all(|&id| id >= 0))
    }

    /// Whether generation stops at this token.
    pub fn token_ends(&self, id: i32) -> bool {
        unsafe { sys::tft_token_ends(self.raw(), id) }
    }

    /// Opens a session with all defaults.
    pub fn session(&self) -> Result<Session<'_>> {
        self.session_with(&SessionOptions::default())
    }

    /// Opens a session.
    pub fn session_with(&self, options: &SessionOptions) -> Result<Session<'_>> {
        Session::open(self, options)
    }

    /// Compiles a grammar for [`Sampler::grammar`](crate::Sampler::grammar).
    pub fn grammar(&self, kind: GrammarKind, text: &str) -> Result<Grammar<'_>> {
        Grammar::open(self, kind, text)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { sys::tft_model_close(self.raw()) }
    }
}

/// Tokens to text, character by character.
pub(crate) struct TextDecoder {
    state: sys::tft_text,
}

impl TextDecoder {
    /// `started`: the text continues another one.
    pub fn new(started: bool) -> TextDecoder {
        TextDecoder { state: sys::tft_text { started, held: 0, bytes: [0; 3], reserved: [0; 11] } }
    }

    /// Appends the text that token `id` completes; -1 ends the text.
    pub fn push(&mut self, model: &Model, id: i32, out: &mut String) {
        let mut bytes = [0u8; sys::TFT_TEXT_MAX];
        let n = unsafe {
            sys::tft_text_push(&mut self.state, model.raw(), id, bytes.as_mut_ptr().cast())
        };
        out.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
}
