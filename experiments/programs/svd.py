import numpy as np
rng = np.random.default_rng(1)
for _ in range(60):
    np.linalg.svd(rng.standard_normal((300, 300)))
