//! Handlers that need no code of the user's: `echo`, `sleep`, `fail`, `http`, `email` (feature `smtp`), and `exec` for programs
//! in any language.

mod echo;
#[cfg(feature = "smtp")]
pub mod email;
pub mod exec;
mod fail;
pub mod http;
mod sleep;

pub use echo::echo;
pub use fail::fail;
pub use sleep::sleep;
