use std::marker::PhantomData;
use std::os::raw::c_uint;
use std::ptr::{null_mut, NonNull};

use crate::error::check;
use crate::{sys, Error, Model, Result};

/// How the next token is chosen. `default()` takes the most likely one; otherwise the same seed,
/// logits and settings give the same tokens on every machine.
#[derive(Debug, Default)]
pub struct Sampler<'g> {
    /// 0: greedy.
    pub temperature: f32,
    /// Choose among the k most likely; 0: all.
    pub top_k: i32,
    /// Choose among the most likely that together have this probability; 0 or 1: all.
    pub top_p: f32,
    /// Choose among tokens with at least this part of the most likely one's probability; 0: all.
    pub min_p: f32,
    /// Divides the logits of recent tokens; 0 or 1: off.
    pub repeat_penalty: f32,
    /// How many of the newest tokens are recent; 0: 64.
    pub repeat_last: i32,
    /// The state of the random generator, which every draw changes.
    pub seed: u64,
    /// Only its tokens may come, and it moves on with the one that is chosen.
    pub grammar: Option<GrammarState<'g>>,
    /// Further steps.
    pub more: More,
    /// The state of mirostat, which changes it; 0: before the first token.
    pub mirostat_mu: f32,
    /// How many tokens must come before one that ends generation. Each chosen token lowers it.
    pub min_tokens: u32,
}

/// Settings of further steps; `default()` switches all of them off. tuffet.h defines them.
#[derive(Clone, Debug, Default)]
pub struct More {
    /// A penalty for tokens that would continue a repetition (DRY); 0: off.
    pub dry_multiplier: f32,
    /// 0: 1.75.
    pub dry_base: f32,
    /// 0: 2.
    pub dry_allowed_length: u32,
    /// How many of the newest tokens count; 0: all.
    pub dry_last: u32,
    /// Tokens that end repetitions, in ascending order.
    pub dry_breakers: Vec<i32>,
    /// How often the most likely tokens are dropped (XTC); 0: never.
    pub xtc_probability: f32,
    /// 0: 0.1.
    pub xtc_threshold: f32,
    /// Keeps the tokens with the most typical surprise; 0 or 1: all.
    pub typical_p: f32,
    /// Keeps logits at most so many standard deviations below the largest one; 0: all.
    pub top_n_sigma: f32,
    /// Bits of surprise that mirostat 2 aims at; 0: off.
    pub mirostat_tau: f32,
    /// 0: 0.1.
    pub mirostat_eta: f32,
    /// Moves the temperature by at most this much; 0: off.
    pub dynatemp_range: f32,
    /// 0: 1.
    pub dynatemp_exponent: f32,
}

impl More {
    /// The C struct, which points to the breakers.
    pub(crate) fn raw(&self) -> sys::tft_sampler_more {
        sys::tft_sampler_more {
            size: std::mem::size_of::<sys::tft_sampler_more>(),
            dry_multiplier: self.dry_multiplier,
            dry_base: self.dry_base,
            dry_allowed_length: self.dry_allowed_length,
            dry_last: self.dry_last,
            dry_breakers: self.dry_breakers.as_ptr(),
            n_dry_breakers: self.dry_breakers.len() as u32,
            xtc_probability: self.xtc_probability,
            xtc_threshold: self.xtc_threshold,
            typical_p: self.typical_p,
            top_n_sigma: self.top_n_sigma,
            mirostat_tau: self.mirostat_tau,
            mirostat_eta: self.mirostat_eta,
            dynatemp_range: self.dynatemp_range,
            dynatemp_exponent: self.dynatemp_exponent,
        }
    }
}

impl Sampler<'_> {
    /// For a session of `model`. A grammar must have the model's tokens. The result points to
    /// `more`, that of the sampler.
    pub(crate) fn raw(
        &self, model: &Model, more: &sys::tft_sampler_more,
    ) -> Result<sys::tft_sampler> {
        let grammar = match &self.grammar {
            Some(state) if !std::ptr::eq(state.model, model) => {
                return Err(Error::argument("the sampler's grammar is one of another model"))
            }
            Some(state) => state.raw.as_ptr(),
            None => null_mut(),
        };
        Ok(sys::tft_sampler {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last: self.repeat_last,
            seed: self.seed,
            grammar,
            more,
            mirostat_mu: self.mirostat_mu,
            min_tokens: self.min_tokens,
            reserved: [0; 4],
        })
    }

    pub(crate) fn set(&mut self, z: &sys::tft_sampler) {
        self.temperature = z.temperature;
        self.top_k = z.top_k;
        self.top_p = z.top_p;
        self.min_p = z.min_p;
        self.repeat_penalty = z.repeat_penalty;
        self.repeat_last = z.repeat_last;
        self.seed = z.seed;
        self.mirostat_mu = z.mirostat_mu;
    }
}

/// How the text of a grammar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrammarKind {
    /// Rules as llama.cpp reads them.
    Gbnf,
    /// A regular expression that the whole text must match.
    Regex,
}

/// Which texts a model may generate. It never changes, so threads may share it.
#[derive(Debug)]
pub struct Grammar<'m> {
    lexicon: NonNull<sys::tft_lexicon>,
    raw: *mut sys::tft_grammar, // null until it is compiled
    model: &'m Model,
}

unsafe impl Send for Grammar<'_> {}
unsafe impl Sync for Grammar<'_> {}

impl<'m> Grammar<'m> {
    pub(crate) fn open(model: &'m Model, kind: GrammarKind, text: &str) -> Result<Grammar<'m>> {
        let mut lexicon = null_mut();
        check(|err| unsafe { sys::tft_lexicon_open(&mut lexicon, model.raw(), err) })?;
        let lexicon = NonNull::new(lexicon).expect("an open lexicon");
        let mut g = Grammar { lexicon, raw: null_mut(), model };
        check(|err| unsafe {
            sys::tft_grammar_open(
                &mut g.raw,
                lexicon.as_ptr(),
                kind as c_uint,
                text.as_ptr().cast(),
                text.len(),
                err,
            )
        })?;
        Ok(g)
    }

    /// The place at its beginning, for one text.
    pub fn begin(&self) -> Result<GrammarState<'_>> {
        let mut raw = null_mut();
        check(|err| unsafe { sys::tft_grammar_begin(&mut raw, self.raw, err) })?;
        let raw = NonNull::new(raw).expect("a state");
        Ok(GrammarState { raw, model: self.model, grammar: PhantomData })
    }
}

impl Drop for Grammar<'_> {
    fn drop(&mut self) {
        unsafe {
            sys::tft_grammar_close(self.raw);
            sys::tft_lexicon_close(self.lexicon.as_ptr());
        }
    }
}

/// A place in a grammar, for [`Sampler::grammar`].
#[derive(Debug)]
pub struct GrammarState<'g> {
    raw: NonNull<sys::tft_grammar_state>,
    model: &'g Model,
    grammar: PhantomData<&'g Grammar<'g>>,
}

unsafe impl Send for GrammarState<'_> {}

impl Drop for GrammarState<'_> {
    fn drop(&mut self) {
        unsafe { sys::tft_grammar_end(self.raw.as_ptr()) }
    }
}
