//! One file for each command.

pub(crate) mod audit;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod list;
pub(crate) mod mcp;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod stop;
pub(crate) mod sweep;
