//! Strongly connected components for the checker: Tarjan ("Depth-first search and linear graph algorithms", 1972), without
//! recursion. The planner finds them in another way.
//!
//! Cost: linear.

const UNSEEN: usize = usize::MAX;

/// The cycles among kept nodes: components of more than one node, or of one with an edge to itself. `next` yields the kept
/// successors of a kept node.
pub(super) fn cyclic_components<I>(
    nodes: usize,
    keep: impl Fn(usize) -> bool,
    next: impl Fn(usize) -> I,
) -> Vec<Vec<usize>>
where
    I: Iterator<Item = usize>,
{
    let mut seen = vec![UNSEEN; nodes];
    let mut lowest = vec![UNSEEN; nodes];
    let mut open = Vec::new();
    let mut is_open = vec![false; nodes];
    let mut cycles = Vec::new();
    let mut time = 0;
    let mut path: Vec<(usize, I)> = Vec::new();
    for root in (0..nodes).filter(|node| keep(*node)) {
        if seen[root] != UNSEEN {
            continue;
        }
        let mut entered = Some(root);
        loop {
            if let Some(node) = entered.take() {
                (seen[node], lowest[node]) = (time, time);
                time += 1;
                open.push(node);
                is_open[node] = true;
                path.push((node, next(node)));
            }
            let Some((node, rest)) = path.last_mut() else { break };
            let node = *node;
            match rest.next() {
                Some(to) if seen[to] == UNSEEN => entered = Some(to),
                Some(to) if is_open[to] => lowest[node] = lowest[node].min(seen[to]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((above, _)) = path.last() {
                        lowest[*above] = lowest[*above].min(lowest[node]);
                    }
                    if lowest[node] == seen[node] {
                        let start = open.iter().rposition(|member| *member == node).expect("it is still open");
                        let mut component = open.split_off(start);
                        component.iter().for_each(|member| is_open[*member] = false);
                        if component.len() > 1 || next(node).any(|to| to == node) {
                            component.sort_unstable();
                            cycles.push(component);
                        }
                    }
                }
            }
        }
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(nodes: usize, edges: &[(usize, usize)], deleted: &[usize]) -> Vec<Vec<usize>> {
        let keep = |node: usize| !deleted.contains(&node);
        let next = |node: usize| edges.iter().filter(move |e| e.0 == node && keep(e.1)).map(|e| e.1);
        let mut cycles = cyclic_components(nodes, keep, next);
        cycles.sort_unstable();
        cycles
    }

    #[test]
    fn cycles_are_found_and_broken() {
        let edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 5), (5, 0)];
        assert_eq!(cycles(7, &edges, &[]), [vec![0, 1, 2], vec![3, 4], vec![5]]);
        assert_eq!(cycles(7, &edges, &[1, 4, 5]), [[0usize; 0]; 0]);
    }

    #[test]
    fn a_long_cycle_needs_no_stack() {
        let nodes = 200_000;
        let found = cyclic_components(nodes, |_| true, |node| std::iter::once((node + 1) % nodes));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].len(), nodes);
    }
}
