use killcord_model::spec::Unread;
use killcord_model::wire::{
    Answer, Call, FromWarden, Order, Report, Stage, ToWarden, VERSION, WireError, decode, encode,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Longer messages are not tried at every place where they could be cut.
const CUT: usize = 256;

/// A datagram, taken for a message of each kind: it is refused with its reason, or it is that message, whole, and written
/// again it is the same one and no longer.
pub fn wire(datagram: &[u8]) {
    message::<ToWarden>(datagram);
    // What the warden reads over is what its keeper reads.
    let read_over = decode::<ToWarden<Unread>>(datagram).is_ok();
    assert_eq!(read_over, decode::<ToWarden>(datagram).is_ok());
    message::<FromWarden>(datagram);
    message::<Order>(datagram);
    message::<Report>(datagram);
    message::<Call>(datagram);
    message::<Answer>(datagram);
    for number in datagram {
        let stage = Stage::from_number(*number);
        assert!(stage.is_none_or(|stage| stage as u8 == *number && !stage.doing().is_empty()));
    }
}

fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>(datagram: &[u8]) {
    let first = datagram.first().copied();
    let message = match decode::<T>(datagram) {
        Ok(message) => message,
        Err(WireError::Version(version)) => {
            return assert!(version != VERSION && first == Some(version), "{version}, and not {first:?}");
        }
        Err(WireError::Malformed(why)) => {
            return assert!(!why.is_empty() && first.is_none_or(|version| version == VERSION), "{why}");
        }
    };
    assert_eq!(first, Some(VERSION), "another version was read: {message:?}");
    let written = encode(&message).unwrap();
    assert!(written.len() <= datagram.len(), "{message:?} was not all there");
    assert_eq!(decode::<T>(&written).as_ref(), Ok(&message));
    for cut in 0..written.len().min(CUT) {
        assert!(decode::<T>(&written[..cut]).is_err(), "{cut} bytes of {message:?} were read as a message");
    }
}
