use ringcall_handler::handler;

#[handler]
fn nine(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: i32) -> u8 {
    a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i as u8
}

#[handler]
fn five(a: &mut u8, b: &mut u8, c: &mut u8, d: &mut u8, e: &mut [u8; 2]) {
    (*a, *b, *c, *d, *e) = (0, 1, 2, 3, [4; 2]);
}

fn main() {}
