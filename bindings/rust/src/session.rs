use std::ffi::CString;
use std::os::raw::c_int;
use std::path::Path;
use std::ptr::{null, NonNull};

use crate::error::{check, check_code};
use crate::model::{c_path, c_string, TextDecoder};
use crate::{sys, Error, Model, Result, Sampler, Status, Tokenize};

/// How to open a session. In every field 0 or `None` is the default.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// How many tokens fit; 0: the model's context length.
    pub capacity: u32,
    /// Tokens computed in one pass, at most; 0: 512.
    pub n_batch: u32,
    /// How many of the newest tokens of a call keep their logits; 0: 1.
    pub n_logits: u32,
    /// How many of the newest tokens of a call keep their hidden vector.
    pub n_hidden: u32,
    /// Compute no logits. `n_logits` must be 0.
    pub no_logits: bool,
    /// At most 1024; 0: one for each fast core.
    pub threads: u16,
    /// When the session is full, drop old tokens instead of failing with [`Status::Full`].
    pub slide: bool,
    /// The KV cache, such as "f16" or "kivi:bits=4"; `None`: as the model's file
    /// says, or else "i8".
    pub kv: Option<String>,
    /// The name of the prefix that the session begins with; `None`: the model's own.
    pub prefix: Option<String>,
    /// Copies of the state to which the session can go back; 0: 4.
    pub checkpoints: u32,
    /// How many guesses of the next tokens a pass may take along, by prompt lookup; at most 14.
    pub lookup: u32,
}

/// One sequence of tokens, its KV cache, and the logits after its last tokens. All of its memory is
/// taken when it is opened.
#[derive(Debug)]
pub struct Session<'m> {
    raw: NonNull<sys::tft_session>,
    model: &'m Model,
    prefix: Option<CString>,
}

// One thread at a time may use a session, but it may be another one each time.
unsafe impl Send for Session<'_> {}

impl<'m> Session<'m> {
    pub(crate) fn open(model: &'m Model, options: &SessionOptions) -> Result<Session<'m>> {
        let kv = options.kv.as_deref().map(|k| c_string("kv", k)).transpose()?;
        let prefix = options.prefix.as_deref().map(|p| c_string("prefix", p)).transpose()?;
        let mut opts: sys::tft_session_opts = unsafe { std::mem::zeroed() };
        opts.size = std::mem::size_of_val(&opts);
        opts.capacity = options.capacity;
        opts.n_batch = options.n_batch;
        opts.n_logits = options.n_logits;
        opts.n_hidden = options.n_hidden;
        opts.no_logits = options.no_logits;
        opts.n_threads = c_int::from(options.threads);
        opts.slide = options.slide;
        opts.kv = kv.as_ref().map_or(null(), |k| k.as_ptr());
        opts.prefix = prefix.as_ref().map_or(null(), |p| p.as_ptr());
        opts.checkpoints = options.checkpoints;
        opts.lookup = options.lookup;
        let mut raw = std::ptr::null_mut();
        check(|err| unsafe { sys::tft_session_open(&mut raw, model.raw(), &opts, err) })?;
        Ok(Session { raw: NonNull::new(raw).expect("an open session"), model, prefix })
    }

    pub(crate) fn raw(&self) -> *mut sys::tft_session {
        self.raw.as_ptr()
    }

    /// The model of the session.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    fn check(&self, code: sys::tft_status) -> Result<()> {
        check_code(code, unsafe { sys::tft_session_error(self.raw()) })
    }

    /// Appends tokens and computes them.
    pub fn prefill(&mut self, ids: &[i32]) -> Result<()> {
        self.check(unsafe { sys::tft_prefill(self.raw(), ids.as_ptr(), ids.len()) })
    }

    /// Appends one token and computes it.
    pub fn decode(&mut self, id: i32) -> Result<()> {
        self.check(unsafe { sys::tft_decode(self.raw(), id) })
    }

    /// Makes the session hold exactly these tokens: keeps the longest common beginning, and computes
    /// the rest.
    pub fn sync(&mut self, ids: &[i32]) -> Result<()> {
        self.check(unsafe { sys::tft_sync(self.raw(), ids.as_ptr(), ids.len()) })
    }

    /// Drops every token from position `pos` on.
    pub fn rewind(&mut self, pos: usize) -> Result<()> {
        self.check(unsafe { sys::tft_rewind(self.raw(), pos) })
    }

    /// How many tokens it holds.
    pub fn pos(&self) -> usize {
        unsafe { sys::tft_pos(self.raw()) }
    }

    /// How many tokens were computed as guesses, and then came: see [`SessionOptions::lookup`].
    pub fn guessed(&self) -> u64 {
        unsafe { sys::tft_guessed(self.raw()) }
    }

    /// How many tokens fit.
    pub fn capacity(&self) -> usize {
        unsafe { sys::tft_capacity(self.raw()) }
    }

    /// The tokens that it holds.
    pub fn tokens(&self) -> &[i32] {
        unsafe { slice(sys::tft_tokens(self.raw()), self.pos()) }.unwrap_or_default()
    }

    /// The logits `[n_vocab]` after the newest token (`back` = 0), the one before it (1), ... of the
    /// last call; `None` if they were not kept.
    pub fn logits(&self, back: usize) -> Option<&[f32]> {
        unsafe { slice(sys::tft_logits(self.raw(), back), self.model.info().n_vocab) }
    }

    /// The hidden vector `[n_embd]` of the newest token, the one before it, ...; `None` if it was
    /// not kept.
    pub fn hidden(&self, back: usize) -> Option<&[f32]> {
        unsafe { slice(sys::tft_hidden(self.raw(), back), self.model.info().n_embd) }
    }

    /// The `k` most likely next tokens and the logarithms of their probabilities.
    pub fn likeliest(&mut self, k: usize) -> Vec<(i32, f32)> {
        let k = k.min(self.model.info().n_vocab);
        let mut out = vec![sys::tft_choice { id: 0, logprob: 0.0 }; k];
        let n = unsafe { sys::tft_likeliest(self.raw(), null(), out.as_mut_ptr(), k) };
        out[..n].iter().map(|c| (c.id, c.logprob)).collect()
    }

    /// The logarithm of the probability that this token comes next; NaN without logits.
    pub fn logprob(&mut self, id: i32) -> f32 {
        unsafe { sys::tft_logprob(self.raw(), null(), id) }
    }

    /// Chooses the next token, which is not fed. `None` if no token may come, or there are no
    /// logits.
    pub fn sample(&mut self, sampler: &mut Sampler<'_>) -> Result<Option<i32>> {
        let more = sampler.more.raw();
        let mut z = sampler.raw(self.model, &more)?;
        let id = unsafe { sys::tft_sample(&mut z, self.raw()) };
        sampler.seed = z.seed;
        sampler.mirostat_mu = z.mirostat_mu;
        sampler.min_tokens = z.min_tokens;
        Ok(Some(id).filter(|&id| id >= 0))
    }

    /// Makes the session hold the prompt, and continues it with at most `max_tokens` tokens. The
    /// iterator gives the text as it comes. It ends where the model ends the text, or where the
    /// session is full. The beginning of the prompt that the session holds is not computed again.
    pub fn generate<'a, 'g>(
        &'a mut self, prompt: &str, max_tokens: usize, sampler: &'a mut Sampler<'g>,
    ) -> Result<Generate<'a, 'm, 'g>> {
        let how = Tokenize { add_bos: true, ..Tokenize::default() };
        let ids = self.model.tokenize(prompt, how)?;
        let name = self.prefix.as_ref().map_or(null(), |p| p.as_ptr());
        let held = unsafe { sys::tft_prefix_held(self.model.raw(), name, ids.as_ptr(), ids.len()) };
        if held < ids.len() {
            self.sync(&ids[held..])?;
        } else {
            self.rewind(0)?;
            self.prefill(&[])?;
        }
        let text = TextDecoder::new(true);
        Ok(Generate { session: self, sampler, text, left: max_tokens, done: false })
    }

    /// Saves the session and the sampler to a file; the file is replaced when the new one is
    /// complete.
    pub fn save(&self, sampler: &Sampler<'_>, path: impl AsRef<Path>) -> Result<()> {
        let path = c_path(path.as_ref())?;
        let more = sampler.more.raw();
        let z = sampler.raw(self.model, &more)?;
        check(|err| unsafe { sys::tft_session_save(self.raw(), &z, path.as_ptr(), err) })
    }

    /// Replaces what the session holds, and the sampler's settings, by a saved session of the same
    /// model, prefix and cache. After an error both are as they were.
    pub fn load(&mut self, sampler: &mut Sampler<'_>, path: impl AsRef<Path>) -> Result<()> {
        let path = c_path(path.as_ref())?;
        let more = sampler.more.raw();
        let mut z = sampler.raw(self.model, &more)?;
        check(|err| unsafe { sys::tft_session_load(self.raw(), &mut z, path.as_ptr(), err) })?;
        sampler.set(&z);
        Ok(())
    }

    /// Replaces what the session holds by what another session of the same model holds.
    pub fn copy_from(&mut self, other: &Session<'_>) -> Result<()> {
        check(|err| unsafe { sys::tft_session_copy(self.raw(), other.raw(), err) })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        unsafe { sys::tft_session_close(self.raw()) }
    }
}

/// `p` points to `n` values that live as long as the result, or is null.
unsafe fn slice<'a, T>(p: *const T, n: usize) -> Option<&'a [T]> {
    NonNull::new(p as *mut T).map(|p| std::slice::from_raw_parts(p.as_ptr(), n))
}

/// The text that a session generates, see [`Session::generate`].
pub struct Generate<'a, 'm, 'g> {
    session: &'a mut Session<'m>,
    sampler: &'a mut Sampler<'g>,
    text: TextDecoder,
    left: usize,
    done: bool,
}

impl Generate<'_, '_, '_> {
    /// Appends the text of one more token; false if there is none.
    fn step(&mut self, out: &mut String) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let id = self.session.sample(self.sampler)?;
        let id = id.ok_or_else(|| Error::argument("no token may come next"))?;
        if self.session.model.token_ends(id) {
            return Ok(false);
        }
        self.text.push(self.session.model, id, out);
        match self.session.decode(id) {
            Err(e) if e.status == Status::Full => Ok(false),
            other => other.map(|()| true),
        }
    }
}

impl Iterator for Generate<'_, '_, '_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        let mut out = String::new();
        while !self.done && out.is_empty() {
            match self.step(&mut out) {
                Ok(true) => {}
                Ok(false) => {
                    self.text.push(self.session.model, -1, &mut out);
                    self.done = true;
                }
                Err(e) => {
                    self.done = true;
                    return Some(Err(e));
                }
            }
        }
        Some(Ok(out)).filter(|text| !matches!(text, Ok(t) if t.is_empty()))
    }
}
