"""An MSCCL file as those of rccl are: an all-reduce over rings in different orders, one a channel."""

from math import gcd


def ring_file(gpus: int, channels: int) -> str:
    """XML. Channel c visits the GPUs in strides of the c-th number that has no divisor in common with theirs;
    each GPU holds `gpus` x `channels` chunks in place."""
    strides = [stride for stride in range(1, gpus) if gcd(stride, gpus) == 1]
    chunks = gpus * channels
    kinds = ["s", *["rrs"] * (gpus - 2), "rrcs", *["rcs"] * (gpus - 2), "r"]
    head = f'name="rings" proto="Simple" nchannels="{channels}" nchunksperloop="{chunks}" ngpus="{gpus}"'
    lines = [f'<algo {head} coll="allreduce" inplace="1">']
    for gpu in range(gpus):
        lines.append(f'<gpu id="{gpu}" i_chunks="{chunks}" o_chunks="0" s_chunks="0">')
        for channel in range(channels):
            stride = strides[channel % len(strides)]
            place, to, source = gpu * pow(stride, -1, gpus), (gpu + stride) % gpus, (gpu - stride) % gpus
            lines.append(f'<tb id="{channel}" send="{to}" recv="{source}" chan="{channel}">')
            for step, kind in enumerate(kinds):
                at = (place - step) % gpus * channels + channel
                lines.append(
                    f'<step s="{step}" type="{kind}" srcbuf="i" srcoff="{at}" dstbuf="i" dstoff="{at}" '
                    'cnt="1" depid="-1" deps="-1" hasdep="0"/>'
                )
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])
