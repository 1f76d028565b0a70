//! One file for each command.

pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod list;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod stop;
pub(crate) mod sweep;
