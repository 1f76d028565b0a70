//! `killcord doctor`.
pub(crate) fn doctor(_json: bool) -> i32 {
    0
}
