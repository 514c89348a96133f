"""tf.data and DALI for `bench.peers`: loaders that run operators of their own, without Python.

Both decode and crop at once, and draw boxes by the same rule as all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bench.peers_job import Epoch, Job

_AREA, _ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
_PREFETCHED = 2
"""Batches."""


@contextmanager
def tf_data(job: Job, how: str, antialias: bool) -> Iterator[Epoch]:
    """Yield a tf.data pipeline with a private pool of a thread a core."""
    import tensorflow as tf

    def picture(path: Any, label: Any) -> Any:
        data = tf.io.read_file(path)
        shape = tf.io.extract_jpeg_shape(data)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            shape,
            tf.zeros((0, 0, 4), tf.float32),
            area_range=_AREA,
            aspect_ratio_range=_ASPECT,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], extent[0], extent[1]])
        crop = tf.image.decode_and_crop_jpeg(data, window, channels=3)
        resized = tf.image.resize(crop, (job.size, job.size), "bilinear", antialias=antialias)
        flipped = tf.image.random_flip_left_right(resized)
        return tf.cast(tf.clip_by_value(tf.round(flipped), 0, 255), tf.uint8), label

    files = job.listed()
    paths, labels = [path for path, _ in files], [label for _, label in files]
    made = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(files))
    made = made.map(picture, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    made = made.batch(job.batch_size, drop_remainder=True).prefetch(_PREFETCHED)
    options = tf.data.Options()
    options.threading.private_threadpool_size = job.workers
    made = made.with_options(options)

    def epoch(number: int) -> Iterator[Any]:
        return iter(made.as_numpy_iterator())

    yield epoch


@contextmanager
def dali(job: Job, how: str, antialias: bool) -> Iterator[Epoch]:
    """Yield a DALI pipeline on the CPU with a thread a core."""
    from nvidia.dali import fn, pipeline_def, types

    files = job.listed()

    @pipeline_def  # type: ignore[untyped-decorator]
    def pictures() -> Any:
        data, labels = fn.readers.file(
            files=[path for path, _ in files],
            labels=[label for _, label in files],
            shuffle_after_epoch=True,
        )
        crop = fn.decoders.image_random_crop(
            data,
            device="cpu",
            output_type=types.RGB,
            random_area=list(_AREA),
            random_aspect_ratio=list(_ASPECT),
            num_attempts=10,
        )
        size = float(job.size)
        resized = fn.resize(
            crop, resize_x=size, resize_y=size, interp_type=types.INTERP_LINEAR, antialias=antialias
        )
        return fn.flip(resized, horizontal=fn.random.coin_flip(probability=0.5)), labels

    pipeline = pictures(
        batch_size=job.batch_size,
        num_threads=job.workers,
        device_id=None,
        prefetch_queue_depth=_PREFETCHED,
    )
    pipeline.build()

    def epoch(number: int) -> Iterator[Any]:
        # Scheduled by hand: left alone, it would make the next epoch's first batches between
        # epochs, where no time is taken.
        batches = job.pictures // job.batch_size
        ahead = min(_PREFETCHED, batches)
        for _ in range(ahead):
            pipeline.schedule_run()
        for done in range(batches):
            found, labels = pipeline.share_outputs()
            batch = np.array(found.as_tensor()), np.array(labels.as_tensor())
            pipeline.release_outputs()
            if done + ahead < batches:
                pipeline.schedule_run()
            yield batch

    yield epoch
