//! The flattened device tree's outer form: header, blocks, tokens (Devicetree Specification 0.4, chapter 5).
//!
//! The `fdt` crate slices by offsets that it takes from the header and ends quietly where a node is cut off, so the form
//! is checked here first, from end to end. What passes cannot make the crate panic or leave anything out.

use thiserror::Error;

const MAGIC: u32 = 0xd00d_feed;
/// Header of version 17: ten words.
const HEADER_LEN: usize = 40;
/// The version whose layout we read; later ones that call themselves compatible with it are read too.
const VERSION: u32 = 17;
/// Nodes inside nodes, the root included. QEMU's trees have five levels.
const MAX_DEPTH: usize = 32;
/// An entry of the memory reservation block: address and size, 64 bits each.
const RESERVATION_LEN: usize = 16;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

/// What is wrong with the blob. Offsets are in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlobError {
    /// Not a device tree.
    #[error("no device tree: magic {0:#010x} instead of 0xd00dfeed")]
    BadMagic(u32),
    /// Shorter than its header says, or than a header is.
    #[error("device tree of {need} bytes in {have}")]
    TooShort {
        /// Bytes there are.
        have: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// A layout that we do not know.
    #[error("device tree version {version}, compatible with {compatible}: need one compatible with 17")]
    BadVersion {
        /// The blob's version.
        version: u32,
        /// The oldest version it is compatible with.
        compatible: u32,
    },
    /// A block does not lie inside the blob, or is not aligned.
    #[error("device tree: the {block} block at {offset:#x}, {size:#x} bytes, is not inside the blob or not aligned")]
    BadBlock {
        /// Which block.
        block: &'static str,
        /// Where it should start.
        offset: u32,
        /// Its length in bytes.
        size: u32,
    },
    /// A word of the structure block that is no token, or a token in the wrong place.
    #[error("device tree: unexpected token {token:#x} at {offset:#x}")]
    BadToken {
        /// The word.
        token: u32,
        /// Where it stands.
        offset: usize,
    },
    /// A node's name or a property's name or value that runs out of its block.
    #[error("device tree: name or value at {offset:#x} is cut off")]
    Cut {
        /// Where the token stands.
        offset: usize,
    },
    /// Nodes are nested too deeply.
    #[error("device tree: more than 32 nodes inside each other at {offset:#x}")]
    TooDeep {
        /// Where the token stands.
        offset: usize,
    },
    /// The structure block or the reservations end too early.
    #[error("device tree: the {block} block has no end")]
    NoEnd {
        /// Which block.
        block: &'static str,
    },
}

/// Length in bytes of the device tree that starts with `head` (8 bytes are enough), as its header states it.
///
/// # Errors
/// [`BlobError::TooShort`], [`BlobError::BadMagic`].
pub fn blob_size(head: &[u8]) -> Result<usize, BlobError> {
    let short = BlobError::TooShort { have: head.len(), need: 8 };
    let magic = word(head, 0).ok_or(short)?;
    if magic != MAGIC {
        return Err(BlobError::BadMagic(magic));
    }
    Ok(word(head, 4).ok_or(short)? as usize)
}

/// The device tree at `base`, if it is one of at most `limit` bytes.
///
/// # Errors
/// [`BlobError::BadMagic`]; [`BlobError::TooShort`] where it would be longer than `limit`.
///
/// # Safety
/// The `limit` bytes from `base` are readable memory (8 at least), and nothing writes those of the device tree there, as
/// many as its header states, for the lifetime `'a`.
pub unsafe fn blob_at<'a>(base: *const u8, limit: usize) -> Result<&'a [u8], BlobError> {
    // SAFETY: the caller promises 8 readable bytes at `base`, which nothing writes if they begin a device tree; if they do
    // not, this reference is gone before the caller gets to hear of it.
    let need = blob_size(unsafe { core::slice::from_raw_parts(base, limit.min(8)) })?;
    if need > limit {
        return Err(BlobError::TooShort { have: limit, need });
    }
    // SAFETY: the caller promises that the device tree's bytes, `need` of them, are readable and stay as they are.
    Ok(unsafe { core::slice::from_raw_parts(base, need) })
}

/// A blob whose form has been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blob<'a> {
    bytes: &'a [u8],
    reservations: &'a [u8],
}

/// One block of the blob and where it starts.
#[derive(Clone, Copy)]
struct Block<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Blob<'a> {
    /// Checks the form of the device tree at the start of `bytes`.
    pub(super) fn check(bytes: &'a [u8]) -> Result<Self, BlobError> {
        let need = blob_size(bytes)?.max(HEADER_LEN);
        let bytes = bytes.get(..need).ok_or(BlobError::TooShort { have: bytes.len(), need })?;
        let field = |index: usize| word(bytes, index * 4).unwrap_or(0);
        let (version, compatible) = (field(5), field(6));
        if version < VERSION || compatible > VERSION {
            return Err(BlobError::BadVersion { version, compatible });
        }
        let structure = block(bytes, "structure", 4, field(2), field(9))?;
        let strings = block(bytes, "strings", 1, field(3), field(8))?;
        // Its length is nowhere stated.
        let map_size = (bytes.len() as u32).saturating_sub(field(4));
        let map = block(bytes, "memory reservation", 8, field(4), map_size)?;
        check_structure(structure, strings.bytes)?;
        let reservations = reservations(map.bytes).ok_or(BlobError::NoEnd { block: "memory reservation" })?;
        Ok(Blob { bytes, reservations })
    }

    /// The whole blob, trimmed to its stated size.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The memory reservation block: address and size of each entry.
    pub(super) fn reservations(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        self.reservations.chunks_exact(RESERVATION_LEN).map(|entry| {
            let (address, size) = entry.split_at(8);
            (be64(address), be64(size))
        })
    }
}

/// The big-endian word at `offset`.
fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

/// Up to eight big-endian bytes as a number.
fn be64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// `size` bytes of the blob from `offset`, which has to be aligned to `align`.
fn block<'a>(
    bytes: &'a [u8],
    name: &'static str,
    align: usize,
    offset: u32,
    size: u32,
) -> Result<Block<'a>, BlobError> {
    let start = offset as usize;
    let inside = start.checked_add(size as usize).and_then(|end| bytes.get(start..end));
    match inside {
        Some(bytes) if start.is_multiple_of(align) => Ok(Block { bytes, offset: start }),
        _ => Err(BlobError::BadBlock { block: name, offset, size }),
    }
}

/// The reservation entries before the terminating pair of zeros.
fn reservations(map: &[u8]) -> Option<&[u8]> {
    let count = map.chunks_exact(RESERVATION_LEN).position(|entry| entry.iter().all(|&byte| byte == 0))?;
    map.get(..count * RESERVATION_LEN)
}

/// Walks the structure block: one root node, properties before subnodes, everything closed, END as its last word.
fn check_structure(block: Block<'_>, strings: &[u8]) -> Result<(), BlobError> {
    let bytes = block.bytes;
    let mut at = 0;
    let mut depth = 0;
    // Whether the innermost open node may still have properties: not after its first subnode.
    let mut properties = false;
    let mut rooted = false;
    loop {
        let offset = block.offset + at;
        let token = word(bytes, at).ok_or(BlobError::NoEnd { block: "structure" })?;
        at += 4;
        let rest = bytes.get(at..).unwrap_or_default();
        match token {
            NOP => {}
            BEGIN_NODE if depth > 0 || !rooted => {
                if depth == MAX_DEPTH {
                    return Err(BlobError::TooDeep { offset });
                }
                at += padded(name_len(rest).ok_or(BlobError::Cut { offset })?);
                depth += 1;
                (properties, rooted) = (true, true);
            }
            END_NODE if depth > 0 => {
                depth -= 1;
                properties = false;
            }
            PROP if properties => {
                let len = property_len(rest, strings).ok_or(BlobError::Cut { offset })?;
                at += 8 + padded(len);
            }
            END if depth == 0 && rooted && rest.is_empty() => return Ok(()),
            _ => return Err(BlobError::BadToken { token, offset }),
        }
    }
}

/// Length of the NUL-terminated UTF-8 name at the start of `bytes`, terminator included.
fn name_len(bytes: &[u8]) -> Option<usize> {
    let name = core::ffi::CStr::from_bytes_until_nul(bytes).ok()?;
    name.to_str().ok()?;
    Some(name.count_bytes() + 1)
}

/// Length of the value of the property whose length and name words `bytes` starts with, if both are there in full.
fn property_len(bytes: &[u8], strings: &[u8]) -> Option<usize> {
    let len = word(bytes, 0)? as usize;
    let name = word(bytes, 4)? as usize;
    name_len(strings.get(name..)?)?;
    bytes.get(8..)?.get(..len)?;
    Some(len)
}

/// `len` rounded up to the word that the next token starts at.
const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}
