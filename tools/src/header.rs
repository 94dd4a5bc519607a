//! The header at the start of an arm64 Image (Linux, `Documentation/arch/arm64/booting`).

/// Length in bytes of the header.
pub const LEN: usize = 64;

/// What stands at offset 56.
const MAGIC: [u8; 4] = *b"ARM\x64";

/// The header's fields that mean something here; all others are zero in an Image of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The first instruction, executed with the MMU off.
    pub code0: u32,
    /// Bytes from a 2 MiB boundary to where the Image has to lie.
    pub text_offset: u64,
    /// Bytes of memory that the loader must leave to the Image, BSS included.
    pub image_size: u64,
    /// Byte order, page size and placement, as the kernel states them.
    pub flags: u64,
}

impl Header {
    /// Reads the header of `image`; `None` where it has none.
    pub fn parse(image: &[u8]) -> Option<Self> {
        let header = image.get(..LEN)?;
        let long = |offset: usize| header[offset..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        if header[56..60] != MAGIC {
            return None;
        }
        let code0 = u32::from_le_bytes(*header.first_chunk()?);
        Some(Self { code0, text_offset: long(8)?, image_size: long(16)?, flags: long(24)? })
    }

    /// The header as it stands in an Image.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&self.code0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.text_offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.image_size.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.flags.to_le_bytes());
        bytes[56..60].copy_from_slice(&MAGIC);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_needs_its_magic_and_all_its_bytes() {
        let header = Header { code0: 0x1400_0010, text_offset: 0x8_0000, image_size: 0x123_4567, flags: 0xa };
        let mut bytes = header.to_bytes();
        assert_eq!(Header::parse(&bytes), Some(header));
        assert_eq!(Header::parse(&bytes[..LEN - 1]), None);
        bytes[56] = 0;
        assert_eq!(Header::parse(&bytes), None);
    }
}
