//! The functions and structs of `tuffet.h` that this crate uses, as C has them. The header is their
//! manual. `tests/abi.rs` compares the structs with the header's table of sizes and offsets.
#![allow(non_camel_case_types, missing_docs)]
use std::os::raw::{c_char, c_int, c_uint, c_void};

pub type tft_status = c_uint;
pub const TFT_OK: tft_status = 0;
pub const TFT_ERR_FULL: tft_status = 6;

pub const TFT_ADD_BOS: c_uint = 1;
pub const TFT_ADD_EOS: c_uint = 8;
pub const TFT_PARSE_SPECIAL: c_uint = 2;
pub const TFT_CONTINUE: c_uint = 4;
pub const TFT_TEXT_MAX: usize = 4096;

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque!(tft_model tft_session tft_batch tft_lexicon tft_grammar tft_grammar_state tft_allocator);

#[repr(C)]
pub struct tft_error {
    pub code: tft_status,
    pub os: c_int,
    pub offset: u64,
    pub msg: [c_char; 256],
    pub reserved: [u64; 4],
}

#[repr(C)]
pub struct tft_model_opts {
    pub size: usize,
    pub allocator: *const tft_allocator,
    pub tokenizer: *const c_char,
    pub weights: c_uint,
    pub vocab_only: bool,
    pub n_threads: c_int,
    pub progress: Option<unsafe extern "C" fn(*mut c_void, f64)>,
    pub progress_user: *mut c_void,
    pub device: *const c_char,
    pub gpu_layers: u32,
    pub tokenizer_data: *const c_void,
    pub tokenizer_size: usize,
    pub ignore_keys: *const c_char,
    pub experts_bytes: u64,
    pub predictor: bool,
}

#[repr(C)]
pub struct tft_model_info {
    pub size: usize,
    pub arch: *const c_char,
    pub name: *const c_char,
    pub n_params: u64,
    pub weight_bytes: u64,
    pub matmul_macs: u64,
    pub kv_width: u64,
    pub n_vocab: u32,
    pub n_ctx: u32,
    pub n_embd: u32,
    pub n_layer: u32,
    pub n_head: u32,
    pub n_head_kv: u32,
    pub head_dim: u32,
    pub n_ff: u32,
    pub weights: c_uint,
    pub n_prefix: u32,
    pub prefix_bos: bool,
    pub state_bytes: u64,
    pub n_expert: u32,
    pub n_expert_used: u32,
    pub n_device: u32,
    pub pooling: c_uint,
    pub add_eos: bool,
    pub encoder: bool,
    pub kv: *const c_char,
    pub file_type: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tft_text {
    pub started: bool,
    pub held: u8,
    pub bytes: [u8; 3],
    pub reserved: [u8; 11],
}

#[repr(C)]
pub struct tft_session_opts {
    pub size: usize,
    pub allocator: *const tft_allocator,
    pub capacity: u32,
    pub n_batch: u32,
    pub n_logits: u32,
    pub n_threads: c_int,
    pub slide: bool,
    pub kv: *const c_char,
    pub keep: Option<unsafe extern "C" fn(*mut c_void, u64, i32) -> bool>,
    pub keep_user: *mut c_void,
    pub prefix: *const c_char,
    pub progress: Option<unsafe extern "C" fn(*mut c_void, f64) -> bool>,
    pub progress_user: *mut c_void,
    pub checkpoints: u32,
    pub n_hidden: u32,
    pub no_logits: bool,
    pub lookup: u32,
    pub draft: *mut tft_session,
    pub count_ends: bool,
    pub batch: *mut tft_batch,
    pub loras: *const c_void,
    pub n_loras: u32,
}

#[repr(C)]
pub struct tft_sampler {
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub repeat_last: i32,
    pub seed: u64,
    pub grammar: *mut tft_grammar_state,
    pub more: *const tft_sampler_more,
    pub mirostat_mu: f32,
    pub min_tokens: u32,
    pub reserved: [u64; 4],
}

#[repr(C)]
pub struct tft_sampler_more {
    pub size: usize,
    pub dry_multiplier: f32,
    pub dry_base: f32,
    pub dry_allowed_length: u32,
    pub dry_last: u32,
    pub dry_breakers: *const i32,
    pub n_dry_breakers: u32,
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    pub typical_p: f32,
    pub top_n_sigma: f32,
    pub mirostat_tau: f32,
    pub mirostat_eta: f32,
    pub dynatemp_range: f32,
    pub dynatemp_exponent: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tft_choice {
    pub id: i32,
    pub logprob: f32,
}

extern "C" {
    pub fn tft_status_text(code: tft_status) -> *const c_char;
    pub fn tft_version() -> *const c_char;
    pub fn tft_cpu_name() -> *const c_char;

    pub fn tft_model_open(
        out: *mut *mut tft_model, path: *const c_char, opts: *const tft_model_opts,
        err: *mut tft_error,
    ) -> tft_status;
    pub fn tft_model_close(m: *mut tft_model);
    pub fn tft_model_describe(m: *const tft_model, info: *mut tft_model_info);
    pub fn tft_tokenize(
        m: *const tft_model, text: *const c_char, len: usize, flags: c_uint, ids: *mut i32,
        cap: usize, n: *mut usize,
    ) -> tft_status;
    pub fn tft_token_bos(m: *const tft_model) -> i32;
    pub fn tft_token_eos(m: *const tft_model) -> i32;
    pub fn tft_token_fim(m: *const tft_model, part: c_uint) -> i32;
    pub fn tft_token_ends(m: *const tft_model, id: i32) -> bool;
    pub fn tft_text_push(t: *mut tft_text, m: *const tft_model, id: i32, out: *mut c_char)
        -> usize;
    pub fn tft_prefix_held(
        m: *const tft_model, name: *const c_char, ids: *const i32, n: usize,
    ) -> usize;

    pub fn tft_session_open(
        out: *mut *mut tft_session, m: *const tft_model, opts: *const tft_session_opts,
        err: *mut tft_error,
    ) -> tft_status;
    pub fn tft_session_close(s: *mut tft_session);
    pub fn tft_session_error(s: *const tft_session) -> *const tft_error;
    pub fn tft_prefill(s: *mut tft_session, tokens: *const i32, n: usize) -> tft_status;
    pub fn tft_decode(s: *mut tft_session, token: i32) -> tft_status;
    pub fn tft_sync(s: *mut tft_session, tokens: *const i32, n: usize) -> tft_status;
    pub fn tft_rewind(s: *mut tft_session, pos: usize) -> tft_status;
    pub fn tft_pos(s: *const tft_session) -> usize;
    pub fn tft_guessed(s: *const tft_session) -> u64;
    pub fn tft_capacity(s: *const tft_session) -> usize;
    pub fn tft_tokens(s: *const tft_session) -> *const i32;
    pub fn tft_logits(s: *const tft_session, back: usize) -> *const f32;
    pub fn tft_hidden(s: *const tft_session, back: usize) -> *const f32;
    pub fn tft_session_save(
        s: *const tft_session, z: *const tft_sampler, path: *const c_char, err: *mut tft_error,
    ) -> tft_status;
    pub fn tft_session_load(
        s: *mut tft_session, z: *mut tft_sampler, path: *const c_char, err: *mut tft_error,
    ) -> tft_status;
    pub fn tft_session_copy(
        to: *mut tft_session, from: *const tft_session, err: *mut tft_error,
    ) -> tft_status;

    pub fn tft_lexicon_open(
        out: *mut *mut tft_lexicon, m: *const tft_model, err: *mut tft_error,
    ) -> tft_status;
    pub fn tft_lexicon_close(lx: *mut tft_lexicon);
    pub fn tft_grammar_open(
        out: *mut *mut tft_grammar, lx: *const tft_lexicon, kind: c_uint, text: *const c_char,
        len: usize, err: *mut tft_error,
    ) -> tft_status;
    pub fn tft_grammar_close(g: *mut tft_grammar);
    pub fn tft_grammar_begin(
        out: *mut *mut tft_grammar_state, g: *const tft_grammar, err: *mut tft_error,
    ) -> tft_status;
    pub fn tft_grammar_end(s: *mut tft_grammar_state);

    pub fn tft_sample(z: *mut tft_sampler, s: *mut tft_session) -> i32;
    pub fn tft_likeliest(
        s: *mut tft_session, logits: *const f32, out: *mut tft_choice, k: usize,
    ) -> usize;
    pub fn tft_logprob(s: *mut tft_session, logits: *const f32, id: i32) -> f32;
}
