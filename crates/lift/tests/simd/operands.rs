//! Operands for a case: every pair of edge values in every lane position, then random ones.

use crate::case::{Param, WINDOW};
use crate::lanes::{Kind, pack_raw};

/// How many random rounds a case runs.
const RANDOM: usize = 256;

/// All argument lists to try.
pub(crate) fn operands(params: &[Param]) -> Vec<Vec<u128>> {
    let mut lists = Vec::new();
    let edges: Vec<Vec<u128>> = params.iter().map(|param| edges(*param)).collect();
    // The same edge in all lanes, in all combinations; of three operands the random rounds must do.
    if params.len() <= 2 {
        for first in &edges[0] {
            let rest = edges.get(1).map_or(vec![None], |edges| edges.iter().copied().map(Some).collect());
            for second in rest {
                let scalars = [Some(*first), second];
                lists.push(
                    params.iter().zip(scalars.into_iter().flatten()).map(|(param, x)| splat(*param, x)).collect(),
                );
            }
        }
    }
    // Neighbouring lanes differ; each lane pairs with each edge of the other operand.
    let longest = edges.iter().map(Vec::len).max().unwrap_or(0);
    for rotation in 0..longest {
        for start in (0..longest).step_by(2) {
            lists.push((0..params.len()).map(|at| ramp(params[at], &edges[at], start + at * rotation)).collect());
        }
    }
    let mut random = Random(0x5eed);
    for _ in 0..RANDOM {
        lists.push(params.iter().zip(&edges).map(|(param, edges)| random.operand(*param, edges)).collect());
    }
    lists
}

fn edges(param: Param) -> Vec<u128> {
    match param {
        Param::Vector(kind) => kind.edges(),
        Param::Scalar(Kind::I8 | Kind::I16) => Kind::I32.edges(),
        Param::Scalar(kind) => kind.edges(),
        Param::Address => (0..32).chain([63, 64, 100, 127, WINDOW as u128 - 32]).collect(),
    }
}

fn splat(param: Param, x: u128) -> u128 {
    match param {
        Param::Vector(kind) => pack_raw(kind, std::iter::repeat_n(x, 16 / kind.bytes())),
        Param::Scalar(_) | Param::Address => x,
    }
}

fn ramp(param: Param, edges: &[u128], start: usize) -> u128 {
    let edge = |at: usize| edges[(start + at) % edges.len()];
    match param {
        Param::Vector(kind) => pack_raw(kind, (0..16 / kind.bytes()).map(edge)),
        Param::Scalar(_) | Param::Address => edge(0),
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn edge(&mut self, edges: &[u128]) -> u128 {
        let at = self.next() % edges.len() as u64;
        edges[usize::try_from(at).expect("an index of a slice")]
    }

    fn lane(&mut self, kind: Kind, edges: &[u128]) -> u128 {
        let bits = self.next();
        if self.next().is_multiple_of(4) { self.edge(edges) } else { u128::from(bits >> (64 - 8 * kind.bytes())) }
    }

    fn operand(&mut self, param: Param, edges: &[u128]) -> u128 {
        match param {
            Param::Vector(kind) => {
                let lanes: Vec<u128> = (0..16 / kind.bytes()).map(|_| self.lane(kind, edges)).collect();
                pack_raw(kind, lanes)
            }
            Param::Scalar(kind) => {
                let kind = if matches!(kind, Kind::I8 | Kind::I16) { Kind::I32 } else { kind };
                self.lane(kind, edges)
            }
            Param::Address => self.edge(edges),
        }
    }
}
