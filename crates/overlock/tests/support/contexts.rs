// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models in which each CPU does something else: interrupts inside each other, and a queue node
//! that is left behind and used again.

use overlock::{RawLock, RawTimedLock};

use super::mixed::Kind;
use super::models::{Depth, Report, Scene, explore, nobody_passes, queued};
use super::platform::{self, Halting, World};

/// The critical sections of each lock in [`nested`]: the one in which it starts, CPU 0's, and CPU
/// 1's own.
const SECTIONS: usize = 3;

/// `DEPTH` locks are held. While CPU 0 waits for the first, an interrupt makes it wait for the
/// second, and so on. CPU 1 releases them, the last one first, and meanwhile takes the last one
/// again.
pub(crate) fn nested<const DEPTH: usize>(
    kinds: [Kind; DEPTH],
    world: World,
    preemptions: usize,
    depth: Depth,
) -> Report {
    explore(Some(preemptions), depth, move || {
        platform::open(World { interrupts: DEPTH - 1, ..world }, 2);
        let scenes: &'static [_; DEPTH] = platform::keep(std::array::from_fn(|level| {
            kinds[level].scene(if level == DEPTH - 1 { SECTIONS } else { SECTIONS - 1 })
        }));
        for scene in scenes {
            scene.lock.lock();
        }
        let enter = |level: usize| {
            scenes[level].lock.lock();
            scenes[level].section();
        };
        platform::on_interrupt(platform::keep(enter));
        platform::run(2, move |cpu| {
            if cpu == 0 {
                return enter(0);
            }
            for scene in scenes.iter().rev() {
                scene.section();
            }
            enter(DEPTH - 1);
        });
        for scene in scenes {
            scene.rest();
        }
        platform::close();
    })
}

/// CPU 1 gives up behind CPU 0 and releases the lock, which was held on its behalf. Meanwhile CPU 2
/// has joined the queue behind it and may not have linked itself. CPU 0 then skips the node that
/// CPU 1 has left behind, CPU 2 frees it, and CPU 1 uses it again.
pub(crate) fn left_behind(depth: Depth) -> Report {
    explore(Some(1), depth, || {
        platform::open(World { timeouts: true, ..World::PLAIN }, 3);
        let scene = Scene::new(4, queued::<Halting>, nobody_passes());
        scene.lock.lock();
        platform::run(3, move |cpu| {
            if cpu == 1 {
                if scene.lock.try_lock_until(1) {
                    unreachable!("the lock is held until this CPU releases it");
                }
                scene.section();
                loom::thread::yield_now();
            }
            scene.lock.lock();
            if cpu == 2 {
                loom::thread::yield_now();
            }
            scene.section();
        });
        scene.rest();
        platform::close();
    })
}

/// CPU 1 gives up behind CPU 0. CPU 2 has joined the queue behind it, but not linked itself, when
/// CPU 3 releases the lock, which was held on its behalf. So CPU 2 finds that it is the queue head,
/// and frees the node.
pub(crate) fn unlinked(depth: Depth) -> Report {
    explore(Some(1), depth, || {
        platform::open(World { timeouts: true, ..World::PLAIN }, 4);
        let scene = Scene::new(4, queued::<Halting>, nobody_passes());
        scene.lock.lock();
        platform::run(4, move |cpu| {
            match cpu {
                1 if !scene.lock.try_lock_until(1) => return,
                0 | 2 => scene.lock.lock(),
                _ => {}
            }
            scene.section();
        });
        scene.rest();
        platform::close();
    })
}
