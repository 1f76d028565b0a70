//! `killcord demo`.
use crate::args::Demo;
pub(crate) fn demo(_demo: &Demo) -> i32 {
    0
}
