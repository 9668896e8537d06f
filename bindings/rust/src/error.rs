use std::ffi::CStr;
use std::fmt;

use crate::sys;

/// What kind of failure an [`Error`] is: the statuses of `tuffet.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// An argument is outside what is allowed.
    Argument,
    /// Memory is short.
    NoMemory,
    /// The operating system refused; [`Error::os`] is its number.
    Io,
    /// The file is damaged, or is not of the type that it claims to be.
    Format,
    /// The file is valid, but this version cannot run it.
    Unsupported,
    /// The session has no room for the tokens.
    Full,
    /// The device to compute on is missing or has failed.
    Device,
    /// The model computed logits that are NaN or infinity.
    Numbers,
    /// The call was stopped.
    Cancelled,
    /// A status of a later version of the library.
    Other(u32),
}

impl Status {
    fn of(code: sys::tft_status) -> Status {
        match code {
            1 => Status::Argument,
            2 => Status::NoMemory,
            3 => Status::Io,
            4 => Status::Format,
            5 => Status::Unsupported,
            6 => Status::Full,
            7 => Status::Device,
            8 => Status::Numbers,
            9 => Status::Cancelled,
            other => Status::Other(other),
        }
    }
}

/// A failure, with one line for a person.
#[derive(Clone, Debug)]
pub struct Error {
    /// What kind of failure it is.
    pub status: Status,
    /// The number of the operating system's error, or 0.
    pub os: i32,
    /// With [`Status::Format`]: the byte of the file where reading stopped.
    pub offset: u64,
    message: String,
}

/// What most calls return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn argument(message: impl Into<String>) -> Error {
        Error { status: Status::Argument, os: 0, offset: 0, message: message.into() }
    }

    /// `err`: what the library filled; its line may be empty.
    fn of(code: sys::tft_status, err: Option<&sys::tft_error>) -> Error {
        let line = err.map(|e| unsafe { text(e.msg.as_ptr()) }).unwrap_or_default();
        let message =
            if line.is_empty() { unsafe { text(sys::tft_status_text(code)) } } else { line };
        let (os, offset) = err.map_or((0, 0), |e| (e.os, e.offset));
        Error { status: Status::of(code), os, offset, message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Calls a function that fills a `tft_error`.
pub(crate) fn check(call: impl FnOnce(*mut sys::tft_error) -> sys::tft_status) -> Result<()> {
    let mut err: sys::tft_error = unsafe { std::mem::zeroed() };
    match call(&mut err) {
        sys::TFT_OK => Ok(()),
        code => Err(Error::of(code, Some(&err))),
    }
}

/// The result of a call that has no `tft_error` of its own. `err`: the session's, or null.
pub(crate) fn check_code(code: sys::tft_status, err: *const sys::tft_error) -> Result<()> {
    match code {
        sys::TFT_OK => Ok(()),
        // of another call, if the codes differ
        code => Err(Error::of(code, unsafe { err.as_ref() }.filter(|e| e.code == code))),
    }
}

/// A copy of a string of the library's. `p` may be null.
pub(crate) unsafe fn text(p: *const std::os::raw::c_char) -> String {
    if p.is_null() {
        return String::new();
    }
    CStr::from_ptr(p).to_string_lossy().into_owned()
}
