# SPDX-License-Identifier: Apache-2.0
"""tf.data, as its guides say that it is fastest: what can be done for a whole
batch is, in vectorized maps behind `batch`."""

import os

import feed

args = feed.arguments()
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf  # noqa: E402

tf.config.threading.set_inter_op_parallelism_threads(args.threads)
tf.config.threading.set_intra_op_parallelism_threads(args.threads)


def arrays():
    """range, shuffle, batch, gather."""
    images, labels = map(tf.constant, feed.read_idx(args.folder))
    order = tf.data.Dataset.range(len(labels)).shuffle(len(labels))

    def gather(rows):
        values = tf.cast(tf.gather(images, rows), tf.float32)
        return values * feed.SCALE, tf.gather(labels, rows)

    return order.batch(feed.BATCH).map(gather, num_parallel_calls=args.threads)


def tfrecord():
    features = {"image": tf.io.FixedLenFeature([], tf.string),
                "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(records):
        found = tf.io.parse_example(records, features)
        bytes_ = tf.io.decode_raw(found["image"], tf.uint8,
                                  fixed_length=feed.PIXELS)
        return tf.cast(bytes_, tf.float32) * feed.SCALE, found["label"]

    records = tf.data.TFRecordDataset(f"{args.folder}/records")
    return records.shuffle(feed.HELD).batch(feed.BATCH).map(
        parse, num_parallel_calls=args.threads)


def images(kind, decode):
    def read(path):
        image = decode(tf.io.read_file(path), channels=3)
        return tf.ensure_shape(image, [feed.SIDE, feed.SIDE, 3]), 0

    files = tf.data.Dataset.list_files(f"{args.folder}/{kind}/class/*",
                                       shuffle=False)
    return files.map(read, num_parallel_calls=args.threads).batch(
        feed.IMAGE_BATCH)


MAKERS = {"arrays": arrays, "tfrecord": tfrecord,
          "jpeg": lambda: images("jpeg", tf.io.decode_jpeg),
          "png": lambda: images("png", tf.io.decode_png)}


def main():
    options = tf.data.Options()
    options.threading.private_threadpool_size = args.threads
    options.deterministic = True
    batches = MAKERS[args.work]().prefetch(2).with_options(options)
    feed.answer(lambda: batches)


main()
