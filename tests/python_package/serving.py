"""What the checks of serving have in common: a network with an open batch, and requests at once."""

from concurrent.futures import ThreadPoolExecutor

NETWORK = """module "net" stage=imported {
  symbol N = 1..8
  graph @main (%x "x": tensor<{N}x4xf32>) -> ("y") {
    %y = map %x (%a: f32) {
      %r = relu %a : f32
      %s = mul %r, %r : f32
      yield %s
    } : tensor<{N}x4xf32>
    return %y
  }
}
"""


def wrong_at_once(is_right, count=40):
    """Those of the numbers up to `count` for which is_right(number), asked at once, is not true."""
    with ThreadPoolExecutor(count) as pool:
        return [k for k, right in enumerate(pool.map(is_right, range(count))) if not right]
