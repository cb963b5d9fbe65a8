"""PyTorch's own memory viewer over snapshots that `maxbatch trace convert` wrote.

memory_viewer.py PROGRAM DATA_FOLDER, with a Python that has torch. Exits with 1 and a sentence on the first difference.
"""
import gzip
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile

import torch.cuda._memory_viz as viewer

# What the viewer's page, which has a pickle machine of its own, knows of.
KNOWN = {'PROTO', 'APPEND', 'APPENDS', 'LIST', 'TUPLE', 'NEWFALSE', 'NEWTRUE', 'NONE', 'BINGET', 'BININT', 'BININT1', 'BININT2',
         'EMPTY_DICT', 'EMPTY_LIST', 'FRAME', 'LONG1', 'LONG_BINGET', 'MARK', 'MEMOIZE', 'BINPUT', 'LONG_BINPUT', 'SETITEMS',
         'SETITEM', 'DICT', 'SHORT_BINUNICODE', 'BINUNICODE', 'STOP', 'EMPTY_TUPLE', 'TUPLE1', 'TUPLE2', 'TUPLE3', 'BINFLOAT'}


def check(condition, text):
    if not condition:
        sys.exit(f'memory_viewer.py: {text}')


def convert(program, source, folder):
    target = os.path.join(folder, 'converted.pickle')
    subprocess.run([program, 'trace', 'convert', source, target], check=True)
    with open(target, 'rb') as file:
        content = file.read()
    for opcode, argument, place in pickletools.genops(content):
        check(opcode.name in KNOWN, f'{source}: the viewer does not know {opcode.name} at byte {place}')
        check(opcode.name != 'PROTO' or 2 <= argument <= 4, f'{source}: protocol {argument}')
        check(opcode.name != 'LONG1' or argument < 2**63, f'{source}: {argument} is no number to the viewer')
    return pickle.loads(content)


def layout(snapshot):
    """Segments as far as events tell: a free block keeps the requested size that it once had."""
    return [(s['device'], s['address'], s['total_size'], s['allocated_size'], s['active_size'], s['requested_size'], s['stream'],
             s['segment_type'], s['segment_pool_id'], s['is_expandable'],
             [(b['address'], b['size'], b['state'], b['requested_size'] if b['state'] != 'inactive' else None) for b in s['blocks']])
            for s in sorted(snapshot['segments'], key=lambda s: s['address'])]


def main(program, data):
    with tempfile.TemporaryDirectory() as folder:
        for name in ('plain', 'late', 'truncated', 'expandable_truncated'):
            source = os.path.join(data, 'snapshots', name + '.pickle.gz')
            with gzip.open(source) as file:
                original = pickle.load(file)
            ours = convert(program, source, folder)
            for a, b in zip(layout(original), layout(ours)):
                check(a == b, f'{name}: PyTorch says {a}, and we {b}')
            check(len(original['segments']) == len(ours['segments']), f'{name}: other segments')
            keys = ('action', 'addr', 'size', 'stream', 'time_us')
            check([[e.get(k) for k in keys] for e in original['device_traces'][0]] ==
                  [[e.get(k) for k in keys] for e in ours['device_traces'][0]], f'{name}: other events')
            check(viewer.segsum(ours) == viewer.segsum(original), f'{name}: another summary of segments')
        for name in ('resnet50-sgd-b8', 'gpt-r0q25-b8-cap8273MiB'):
            ours = convert(program, os.path.join(data, 'recordings', name + '.csv.gz'), folder)
            reserved = sum(s['total_size'] for s in ours['segments'])
            check(f'total_reserved: {viewer.Bytes(reserved)}' in viewer.segsum(ours), f'{name}: the summary of segments')
            check('cudaMalloc' in viewer.trace(ours), f'{name}: the list of events')
            for plot in (viewer.trace_plot(ours), viewer.trace_plot(ours, plot_segments=True), viewer.segment_plot(ours)):
                check('MemoryViz.js' in plot, f'{name}: no page')
    print('memory_viewer.py: as PyTorch has it')


if __name__ == '__main__':
    main(*sys.argv[1:])
