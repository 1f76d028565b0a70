use crate::input::Input;
use killcord_mcp::terminal::keys::{keys as sent, paste};

/// Names of keys and texts to paste, as an agent gives them: a name is a key or says which keys are meant, and each of
/// these is one; a paste ends where it ends.
pub fn keys(data: &[u8]) {
    let application = Input(data).byte() & 1 == 1;
    let text = String::from_utf8_lossy(data);
    match sent(&text, application) {
        Ok(bytes) => assert!(bytes.len() <= 8 * text.len(), "{bytes:?}"),
        Err(unknown) => {
            assert!(unknown.name.chars().count() <= 40 && unknown.close.len() <= 3, "{unknown:?}");
            assert!(!unknown.to_string().is_empty());
            for close in &unknown.close {
                assert!(sent(close, application).is_ok(), "{close:?} is no key, and meant by {unknown:?}");
            }
        }
    }
    let pasted = paste(&text, true);
    let body = pasted.strip_prefix(b"\x1b[200~").and_then(|rest| rest.strip_suffix(b"\x1b[201~")).unwrap();
    let body = std::str::from_utf8(body).unwrap();
    assert!(!body.contains("\x1b[201~") && !body.contains("\u{9b}201~"), "{body:?} ends its paste");
    assert!(!body.contains('\n') && body.len() <= text.len());
    assert_eq!(paste(&text, false), text.replace("\r\n", "\r").replace('\n', "\r").into_bytes());
}
