//! Rounding and fused multiply-add, for CPUs without instructions for them. Source: core spec 4.3.3.
//!
//! A NaN comes back quiet, with its payload, as the instructions do it.
#![expect(unsafe_code, reason = "exported by name")]

macro_rules! rounding {
    ($($symbol:ident $float:ty, $method:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $symbol(value: $float) -> $float {
            // Adding makes a signalling NaN quiet, and changes nothing else about one.
            if value.is_nan() { value + value } else { value.$method() }
        }
    )*};
}
rounding! {
    spw_ceil_f32 f32, ceil;
    spw_ceil_f64 f64, ceil;
    spw_floor_f32 f32, floor;
    spw_floor_f64 f64, floor;
    spw_trunc_f32 f32, trunc;
    spw_trunc_f64 f64, trunc;
    spw_nearest_f32 f32, round_ties_even;
    spw_nearest_f64 f64, round_ties_even;
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn spw_fma_f32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn spw_fma_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_zero_ties_and_nans() {
        assert!(spw_ceil_f32(-0.5).is_sign_negative());
        assert!(spw_trunc_f64(-0.5).is_sign_negative());
        assert_eq!([0.5, 1.5, 2.5, -2.5].map(|x| spw_nearest_f32(x)), [0.0, 2.0, 2.0, -2.0]);
        assert_eq!([0.5, 1.5, 2.5, -2.5].map(|x| spw_nearest_f64(x)), [0.0, 2.0, 2.0, -2.0]);
        assert_eq!((spw_floor_f64(-1.1), spw_floor_f32(1.9)), (-2.0, 1.0));
        assert_eq!((spw_ceil_f64(1.1), spw_trunc_f32(-1.9)), (2.0, -1.0));
        let quiet = spw_nearest_f32(f32::from_bits(0xff80_0001)).to_bits();
        assert_eq!(quiet, 0xffc0_0001);
        assert_eq!(spw_fma_f32(3.0, 4.0, 5.0), 17.0);
        assert_eq!(spw_fma_f64(1e308, 10.0, f64::NEG_INFINITY), f64::NEG_INFINITY);
    }
}
