use ringcall_handler::{Bits, handler};

#[handler]
async fn later(value: u8) -> u8 {
    value
}

#[handler]
unsafe fn dangerous(value: u8) -> u8 {
    value
}

#[handler]
fn generic<const N: usize>(bits: Bits<'_, N>) -> u8 {
    bits.count_ones() as u8
}

struct Decoder;

impl Decoder {
    #[handler]
    fn method(&self, value: u8) -> u8 {
        value
    }
}

fn main() {}
