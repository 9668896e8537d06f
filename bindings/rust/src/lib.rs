//! Small language models on the machine in front of you, by libtuffet.
//!
//! ```no_run
//! use tuffet::{Model, Sampler};
//!
//! let model = Model::open("model.gguf")?;
//! let mut session = model.session()?;
//! let mut sampler = Sampler { temperature: 0.8, seed: 1, ..Sampler::default() };
//! for text in session.generate("Once upon a time", 50, &mut sampler)? {
//!     print!("{}", text?);
//! }
//! # Ok::<(), tuffet::Error>(())
//! ```
//!
//! The library's manual is `tuffet.h`. [`sys`] has its functions as they are.
#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme; // its examples compile

mod error;
mod model;
mod sampler;
mod session;
pub mod sys;

pub use error::{Error, Result, Status};
pub use model::{Model, ModelInfo, ModelOptions, Tokenize, Weights};
pub use sampler::{Grammar, GrammarKind, GrammarState, More, Sampler};
pub use session::{Generate, Session, SessionOptions};

/// The version of the library, such as "1.2.3".
pub fn version() -> String {
    unsafe { error::text(sys::tft_version()) }
}

/// The best set of kernels that this CPU has, such as "avx512" or "neon".
pub fn cpu_name() -> String {
    unsafe { error::text(sys::tft_cpu_name()) }
}
