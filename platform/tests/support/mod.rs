//! Writes flattened device trees, good and bad ones.

/// A tree under construction: nodes and properties in the order of the calls.
#[derive(Default)]
pub struct Tree {
    structure: Vec<u8>,
    strings: Vec<u8>,
    /// Entries of the memory reservation block, the terminating one excepted.
    pub reservations: Vec<(u64, u64)>,
}

impl Tree {
    pub fn word(&mut self, word: u32) -> &mut Self {
        self.structure.extend(word.to_be_bytes());
        self
    }

    fn padded(&mut self, bytes: &[u8]) -> &mut Self {
        self.structure.extend(bytes);
        self.structure.resize(self.structure.len().next_multiple_of(4), 0);
        self
    }

    pub fn begin(&mut self, name: &str) -> &mut Self {
        self.word(1).padded(format!("{name}\0").as_bytes())
    }

    pub fn end(&mut self) -> &mut Self {
        self.word(2)
    }

    pub fn nop(&mut self) -> &mut Self {
        self.word(4)
    }

    pub fn prop(&mut self, name: &str, value: &[u8]) -> &mut Self {
        let offset = self.strings.len() as u32;
        self.strings.extend(format!("{name}\0").as_bytes());
        self.word(3).word(value.len() as u32).word(offset).padded(value)
    }

    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.prop(name, format!("{value}\0").as_bytes())
    }

    pub fn cells(&mut self, name: &str, cells: &[u32]) -> &mut Self {
        let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_be_bytes()).collect();
        self.prop(name, &bytes)
    }

    /// The blob, closed by END.
    pub fn blob(&self) -> Vec<u8> {
        let map_at = 40;
        let structure_at = map_at + 16 * (self.reservations.len() + 1);
        let strings_at = structure_at + self.structure.len() + 4;
        let total = strings_at + self.strings.len();
        let header = [
            0xd00d_feed,
            total as u32,
            structure_at as u32,
            strings_at as u32,
            map_at as u32,
            17,
            16,
            0,
            self.strings.len() as u32,
            self.structure.len() as u32 + 4,
        ];
        let mut blob: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
        for (address, size) in self.reservations.iter().chain(&[(0, 0)]) {
            blob.extend(address.to_be_bytes());
            blob.extend(size.to_be_bytes());
        }
        blob.extend(&self.structure);
        blob.extend(9u32.to_be_bytes());
        blob.extend(&self.strings);
        blob
    }
}
